//! Claims, as far as they are read.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_api::quantity;
use stowage_kubernetes::store::{Cached, exact};

use super::wire::{ClaimSpec, WireClaim};

/// Who is to provision a claim: written by kube-controller-manager, servers up to 1.21 know only the second spelling.
const PROVISIONER: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
/// Where the first pod is to run: written by the scheduler. Removing it makes the scheduler choose again.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const SELECTED_NODE_ALPHA: &str = "volume.alpha.kubernetes.io/selected-node";
/// The driver that took an in-tree plugin's volumes over.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The class of a claim, before there was a field for it.
const CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";
/// Written by the kubelet when a filesystem cannot grow.
pub(crate) const NODE_RESIZE_INFEASIBLE: &str = "NodeResizeInfeasible";
/// The API group of snapshots.
pub(crate) const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";
/// Keeps a claim that is being cloned.
pub const CLONING_PROTECTION: &str = "provisioner.storage.kubernetes.io/cloning-protection";

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about an object of somebody else's"
)]
pub struct Claim {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Kubernetes asks this driver to provision it.
    pub(crate) ours: bool,
    /// It asks an in-tree plugin that was migrated to this driver.
    pub(crate) in_tree: bool,
    pub(crate) selected_node: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) attributes_class: Option<String>,
    /// The VolumeAttributesClass that its volume has.
    pub(crate) current_attributes_class: Option<String>,
    /// A change of its VolumeAttributesClass has begun.
    pub(crate) modifying: bool,
    /// The volume it is bound to, or is to be bound to.
    pub(crate) volume: Option<String>,
    pub(crate) access_modes: Vec<String>,
    pub(crate) block: bool,
    /// As it was written, such as `10Gi`.
    pub(crate) requested: String,
    /// What users of the claim have, in bytes; 0 before it is bound.
    pub(crate) capacity: i64,
    /// The kubelet says that the volume's filesystem cannot grow to the new size.
    pub(crate) node_resize_infeasible: bool,
    pub(crate) source: Option<DataSource>,
    pub(crate) has_selector: bool,
    pub(crate) bound: bool,
    pub(crate) deleting: bool,
    pub(crate) cloning_protected: bool,
}

/// What a volume is to be filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataSource {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Set where it is not the claim's own.
    pub(crate) namespace: Option<String>,
}

impl Claim {
    /// Reads a claim; `driver` is the name that counts as ours.
    pub(crate) fn read(wire: WireClaim, driver: &str) -> Option<Self> {
        let WireClaim {
            metadata,
            spec,
            status,
        } = wire;
        let mut annotations = metadata.annotations.unwrap_or_default();
        let asked = PROVISIONER.iter().find_map(|key| annotations.get(*key));
        let ours = [asked, annotations.get(MIGRATED_TO)]
            .iter()
            .flatten()
            .any(|name| *name == driver);
        let in_tree = ours && asked.is_none_or(|name| name != driver);
        let selected_node = [SELECTED_NODE, SELECTED_NODE_ALPHA]
            .iter()
            .find_map(|key| annotations.remove(*key))
            .filter(|node| !node.is_empty());
        let source = data_source(&spec);
        Some(Self {
            namespace: metadata.namespace?,
            name: metadata.name?,
            uid: metadata.uid?,
            ours,
            in_tree,
            selected_node,
            class: annotations.remove(CLASS_BETA).or(spec.storage_class_name),
            attributes_class: spec
                .volume_attributes_class_name
                .filter(|name| !name.is_empty()),
            current_attributes_class: status
                .current_volume_attributes_class_name
                .filter(|name| !name.is_empty()),
            modifying: status.modify_volume_status.is_some(),
            volume: spec.volume_name.filter(|name| !name.is_empty()),
            access_modes: exact(spec.access_modes),
            block: spec.volume_mode.as_deref() == Some("Block"),
            requested: spec.resources.requests.storage,
            capacity: quantity::size(&status.capacity.storage).unwrap_or(0),
            node_resize_infeasible: status.allocated_resource_statuses.storage
                == NODE_RESIZE_INFEASIBLE,
            source,
            has_selector: spec.selector.is_some(),
            bound: status.phase == "Bound",
            deleting: metadata.deletion_timestamp.is_some(),
            cloning_protected: metadata
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == CLONING_PROTECTION),
        })
    }

    /// For events and for the volume's `claimRef`.
    pub(crate) fn reference(&self) -> ObjectReference {
        claim_reference(&self.namespace, &self.name, &self.uid)
    }

    /// What this claim copies, where that is still to happen.
    pub(crate) fn copies(&self) -> Option<Original<'_>> {
        let source = self.source.as_ref().filter(|_| self.volume.is_none())?;
        let (namespace, name) = (self.namespace.as_str(), source.name.as_str());
        match (source.group.as_str(), source.kind.as_str()) {
            ("", "PersistentVolumeClaim") => Some(Original::Claim { namespace, name }),
            (SNAPSHOT_GROUP, "VolumeSnapshot") => Some(Original::Snapshot { namespace, name }),
            _ => None,
        }
    }
}

/// Something that claims copy. As text it is the group of the claims that wait for their copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Original<'a> {
    Claim { namespace: &'a str, name: &'a str },
    Snapshot { namespace: &'a str, name: &'a str },
}

impl<'a> Original<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        match kind {
            "claim" => Some(Self::Claim { namespace, name }),
            "snapshot" => Some(Self::Snapshot { namespace, name }),
            _ => None,
        }
    }
}

impl fmt::Display for Original<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { namespace, name } => write!(f, "claim/{namespace}/{name}"),
            Self::Snapshot { namespace, name } => write!(f, "snapshot/{namespace}/{name}"),
        }
    }
}

/// A claim as other objects refer to it.
pub(crate) fn claim_reference(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// The older field wins: servers that know both keep them equal, except where only the newer one can say it.
fn data_source(spec: &ClaimSpec) -> Option<DataSource> {
    let local = spec.data_source.as_ref().map(|source| DataSource {
        group: source.api_group.clone().unwrap_or_default(),
        kind: source.kind.clone(),
        name: source.name.clone(),
        namespace: None,
    });
    local.or_else(|| {
        let source = spec.data_source_ref.as_ref()?;
        Some(DataSource {
            group: source.api_group.clone().unwrap_or_default(),
            kind: source.kind.clone(),
            name: source.name.clone(),
            namespace: source.namespace.clone().filter(|name| !name.is_empty()),
        })
    })
}

impl Cached for Claim {
    /// Names come back with other claims behind them; a uid never does.
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn group(&self) -> Option<String> {
        self.copies().map(|original| original.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(annotations: &Value, spec: &Value) -> Claim {
        let wire = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "u", "annotations": annotations},
            "spec": spec,
        });
        Claim::read(serde_json::from_value(wire).unwrap(), "d").unwrap()
    }

    #[test]
    fn a_claim_is_ours_by_either_spelling_or_after_migration() {
        for (annotations, ours) in [
            (
                json!({"volume.kubernetes.io/storage-provisioner": "d"}),
                true,
            ),
            (
                json!({"volume.beta.kubernetes.io/storage-provisioner": "d"}),
                true,
            ),
            (json!({"pv.kubernetes.io/migrated-to": "d"}), true),
            (
                json!({"volume.kubernetes.io/storage-provisioner": "e"}),
                false,
            ),
            (json!(null), false),
        ] {
            assert_eq!(claim(&annotations, &json!({})).ours, ours, "{annotations}");
        }
    }

    #[test]
    fn the_older_class_and_node_annotations_count() {
        let annotations = json!({
            "volume.beta.kubernetes.io/storage-class": "old",
            "volume.alpha.kubernetes.io/selected-node": "n",
        });
        let claim = claim(&annotations, &json!({"storageClassName": "new"}));
        assert_eq!(claim.class.as_deref(), Some("old"));
        assert_eq!(claim.selected_node.as_deref(), Some("n"));
    }

    #[test]
    fn claims_are_grouped_by_what_they_wait_to_copy() {
        let snapshot = json!({"apiGroup": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": "s"});
        let original = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        let other = json!({"apiGroup": "x", "kind": "VolumeSnapshot", "name": "s"});
        for (spec, group) in [
            (json!({"dataSource": snapshot}), Some("snapshot/shop/s")),
            (json!({"dataSource": original}), Some("claim/shop/c")),
            (json!({"dataSource": original, "volumeName": "v"}), None),
            (json!({"dataSourceRef": original}), Some("claim/shop/c")),
            (json!({"dataSource": other}), None),
            (json!({}), None),
        ] {
            let claim = claim(&json!(null), &spec);
            assert_eq!(claim.group().as_deref(), group, "{spec}");
            let original = claim.copies();
            assert_eq!(group.and_then(Original::parse), original);
        }
    }
}
