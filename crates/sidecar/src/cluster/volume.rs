//! Volumes of this driver, as far as they are read.

mod affinity;
mod source;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, SecretReference};
use serde::{Deserialize, Serialize};
use stowage_api::quantity;
use stowage_kubernetes::store::{Cached, exact};

pub(crate) use self::affinity::NodeAffinity;
pub(crate) use self::source::CsiSource;
use super::claim::MIGRATED_TO;
use super::wire::WireVolume;

/// Who made a volume, and therefore deletes it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The secret that deletes the volume; both are written always, empty where there is none.
pub(crate) const DELETION_SECRET_NAME: &str =
    "volume.kubernetes.io/provisioner-deletion-secret-name";
pub(crate) const DELETION_SECRET_NAMESPACE: &str =
    "volume.kubernetes.io/provisioner-deletion-secret-namespace";
/// The size of the claim before its volume grew: the binder reads it until the filesystem has grown, too.
pub(crate) const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// The secret that changes the volume.
pub(crate) const MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";
pub(crate) const MODIFY_SECRET_NAMESPACE: &str =
    "volume.kubernetes.io/controller-modify-secret-namespace";
/// Keeps a volume's object until the volume itself is deleted.
pub(crate) const DELETION_PROTECTION: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// A PersistentVolume of this driver. There may be many thousands: what nobody reads is not in it, and what is rare is on the
/// heap.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "facts of an object")]
pub struct Volume {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) phase: Phase,
    pub(crate) reclaim: Reclaim,
    pub(crate) claim: Option<ClaimKey>,
    /// In bytes; 0 where the object says nothing.
    pub(crate) size: i64,
    /// It grew, and its filesystem is not known to have grown.
    pub(crate) grew: bool,
    pub(crate) attributes_class: Option<String>,
    pub(crate) modify_secret: Option<Box<SecretReference>>,
    pub(crate) csi: CsiSource,
    pub(crate) access_modes: Vec<String>,
    pub(crate) mount_options: Vec<String>,
    pub(crate) block: bool,
    pub(crate) class: Option<String>,
    /// Where it can be used; none: everywhere.
    pub(crate) affinity: Option<NodeAffinity>,
    /// No other provisioner made it: it is protected and deleted here, as its reclaim policy says.
    pub(crate) ours_to_delete: bool,
    /// It is not static: this driver made it for a claim.
    pub(crate) provisioned: bool,
    pub(crate) deletion_secret: DeletionSecret,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
}

/// The secret that deletes a volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DeletionSecret {
    /// The annotations are missing, as on volumes that old provisioners made: the class tells.
    Unknown,
    /// The driver needs none.
    None,
    Named(Box<SecretReference>),
}

/// Where a volume is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Bound,
    /// Its claim is gone.
    Released,
    /// Kubernetes' own controller could not delete it. Where that is older than 1.30 all static volumes end so.
    Failed,
    Other,
}

/// What becomes of a volume whose claim is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaim {
    Delete,
    /// Retain, or the old Recycle: not ours to do.
    Keep,
}

/// The claim a volume belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty where a person made the volume for a claim of this name.
    pub uid: String,
}

impl DeletionSecret {
    fn read(annotations: &BTreeMap<String, String>) -> Self {
        match secret(annotations, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE) {
            None => Self::Unknown,
            Some(secret) if secret.name.as_deref() == Some("") => Self::None,
            Some(secret) => Self::Named(secret),
        }
    }
}

/// The secret that two annotations name.
fn secret(
    annotations: &BTreeMap<String, String>,
    name_key: &str,
    namespace_key: &str,
) -> Option<Box<SecretReference>> {
    let name = annotations.get(name_key)?;
    Some(Box::new(SecretReference {
        name: Some(name.clone()),
        namespace: annotations.get(namespace_key).cloned(),
    }))
}

impl Volume {
    /// The claim that has this volume since this change. Claims and volumes are watched apart: what was decided for the claim
    /// before did not know of its volume.
    pub(crate) fn new_claim<'a>(old: Option<&Self>, new: &'a Self) -> Option<&'a ClaimKey> {
        let had = old.and_then(|old| old.claim.as_ref());
        let has = new.claim.as_ref();
        has.filter(|has| had.is_none_or(|had| had.uid != has.uid))
    }

    /// Reads a volume. `None`: it is another driver's, or nobody's.
    pub(crate) fn read(wire: WireVolume, driver: &str) -> Option<Self> {
        let WireVolume {
            metadata,
            spec,
            status,
        } = wire;
        let annotations = metadata.annotations.unwrap_or_default();
        let is_ours = |key: &str| annotations.get(key).is_some_and(|name| name == driver);
        let csi = match spec.csi {
            Some(csi) => CsiSource::from(Some(csi).filter(|csi| csi.driver == driver)?),
            // Kept so that it can be told of. Its handle is empty, which no volume of a driver's own has.
            None if is_ours(MIGRATED_TO) => CsiSource::default(),
            None => return None,
        };
        // A static volume was provisioned by nobody: the driver that it names is to delete it.
        let ours_to_delete = !annotations.contains_key(PROVISIONED_BY)
            || is_ours(PROVISIONED_BY)
            || is_ours(MIGRATED_TO);
        Some(Self {
            name: metadata.name?,
            uid: metadata.uid?,
            phase: match status.phase.as_str() {
                "Bound" => Phase::Bound,
                "Released" => Phase::Released,
                "Failed" => Phase::Failed,
                _ => Phase::Other,
            },
            reclaim: match spec.persistent_volume_reclaim_policy.as_deref() {
                Some("Delete") => Reclaim::Delete,
                _ => Reclaim::Keep,
            },
            claim: spec.claim_ref.and_then(|claim| {
                Some(ClaimKey {
                    namespace: claim.namespace?,
                    name: claim.name?,
                    uid: claim.uid.unwrap_or_default(),
                })
            }),
            size: quantity::size(&spec.capacity.storage).unwrap_or(0),
            grew: annotations.contains_key(PRE_RESIZE_CAPACITY),
            attributes_class: spec
                .volume_attributes_class_name
                .filter(|name| !name.is_empty()),
            modify_secret: secret(&annotations, MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE),
            csi,
            access_modes: exact(spec.access_modes),
            mount_options: exact(spec.mount_options),
            block: spec.volume_mode.as_deref() == Some("Block"),
            class: spec.storage_class_name.filter(|name| !name.is_empty()),
            affinity: spec.node_affinity.and_then(NodeAffinity::read),
            ours_to_delete,
            provisioned: is_ours(PROVISIONED_BY),
            deletion_secret: DeletionSecret::read(&annotations),
            finalizers: exact(metadata.finalizers.unwrap_or_default()),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }

    /// Whether its claim is gone and it waits to be deleted. A static one that is Failed may rest so for years: it was left
    /// alone.
    pub(crate) fn is_released(&self) -> bool {
        match self.phase {
            Phase::Released => true,
            Phase::Failed => self.provisioned,
            Phase::Bound | Phase::Other => false,
        }
    }

    /// Whether it is of an in-tree plugin that was migrated to this driver. Nobody translates it: nothing is done to it.
    pub(crate) fn is_in_tree(&self) -> bool {
        self.csi.volume_handle.is_empty()
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    /// For events.
    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolume".to_owned()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

impl Cached for Volume {
    fn key(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(claim: Option<&str>) -> Volume {
        let claim = claim.map(|uid| json!({"namespace": "default", "name": "data", "uid": uid}));
        let wire = json!({
            "metadata": {"name": "pvc-1", "uid": "u"},
            "spec": {"csi": {"driver": "d", "volumeHandle": "h"}, "claimRef": claim},
        });
        Volume::read(serde_json::from_value(wire).unwrap(), "d").unwrap()
    }

    #[test]
    fn a_volume_is_news_for_the_claim_that_has_it_only_now() {
        for (old, new, expected) in [
            (None, Some("a"), Some("a")),
            (Some(None), Some("a"), Some("a")),
            // A person has made it for a claim of this name, whichever that is.
            (Some(Some("")), Some("a"), Some("a")),
            (Some(Some("a")), Some("a"), None),
            (Some(Some("a")), Some("b"), Some("b")),
            (Some(Some("a")), None, None),
            (None, None, None),
        ] {
            let old = old.map(of);
            let new = of(new);
            let found = Volume::new_claim(old.as_ref(), &new).map(|it| it.uid.as_str());
            assert_eq!(found, expected, "{old:?}");
        }
    }
}
