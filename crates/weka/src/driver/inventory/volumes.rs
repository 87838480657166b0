//! What of a PersistentVolume is kept.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};
use kube::ResourceExt as _;
use stowage_api::quantity;
use stowage_kubernetes::store::Cached;

use super::SecretName;
use crate::handle::Handle;
use crate::metrics::volumes::VolumeLabels;
use crate::parameters::{ParameterError, enforcement_of_volume};
use crate::quota::{Limits, Size};

/// Written by the provisioner; what a person made has none.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// What of a volume's context says how its size is enforced.
const CONTEXT: [&str; 2] = ["capacityEnforcement", "quotaGracePeriod"];

/// A volume of the driver.
#[derive(Debug)]
pub(crate) struct KnownVolume {
    /// The name of the PersistentVolume.
    pub(crate) name: String,
    pub(crate) handle: Handle,
    pub(crate) bytes: Option<u64>,
    pub(crate) is_static: bool,
    pub(crate) secret: Option<SecretReference>,
    claim: [String; 3],
    class: String,
    context: BTreeMap<String, String>,
}

impl Cached for KnownVolume {
    fn key(&self) -> &str {
        &self.name
    }

    fn group(&self) -> Option<String> {
        Some(self.handle.to_string())
    }
}

impl KnownVolume {
    /// What is kept of a PersistentVolume; nothing if it is of another driver.
    pub(super) fn read(volume: PersistentVolume, driver_name: &str) -> Option<Self> {
        let is_static = !volume.annotations().contains_key(PROVISIONED_BY);
        let name = volume.name_any();
        let spec = volume.spec?;
        let source = spec.csi.filter(|source| source.driver == driver_name)?;
        let claim = spec.claim_ref.unwrap_or_default();
        let capacity = spec.capacity.unwrap_or_default().remove("storage");
        let bytes = capacity.and_then(|bytes| quantity::size(&bytes.0).ok());
        let mut context = source.volume_attributes.unwrap_or_default();
        context.retain(|key, _| CONTEXT.contains(&key.as_str()));
        Some(Self {
            name,
            handle: Handle::parse(&source.volume_handle).ok()?,
            bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()),
            is_static,
            secret: source
                .controller_expand_secret_ref
                .or(source.controller_publish_secret_ref)
                .or(source.node_stage_secret_ref)
                .or(source.node_publish_secret_ref),
            claim: [claim.namespace, claim.name, claim.uid].map(Option::unwrap_or_default),
            class: spec.storage_class_name.unwrap_or_default(),
            context,
        })
    }

    /// Namespace and name of its secret.
    pub(crate) fn secret_name(&self) -> Option<SecretName> {
        let owned = |text: &Option<String>| text.clone().unwrap_or_default();
        let secret = self.secret.as_ref();
        secret.map(|secret| (owned(&secret.namespace), owned(&secret.name)))
    }

    /// The grace period of its class; 0 if it has none.
    pub(crate) fn grace_seconds(&self) -> u64 {
        enforcement_of_volume(&self.context).map_or(0, |(_, seconds)| seconds)
    }

    /// The limits that its quota should have; none if nothing says how large it is.
    pub(super) fn limits(&self) -> Result<Option<Limits>, ParameterError> {
        let (enforcement, grace_seconds) = enforcement_of_volume(&self.context)?;
        let size = self.bytes.map(|bytes| Size { bytes, enforcement });
        Ok(size.map(|size| Limits::new(size, grace_seconds)))
    }

    /// What its figures are kept under.
    pub(super) fn labels(&self, cluster: &str) -> VolumeLabels {
        let [pvc_namespace, pvc_name, pvc_uid] = self.claim.clone();
        VolumeLabels {
            pv_name: self.name.clone(),
            pvc_name,
            pvc_namespace,
            pvc_uid,
            storage_class_name: self.class.clone(),
            cluster_guid: cluster.to_owned(),
            filesystem_name: self.handle.filesystem().to_owned(),
            volume_type: self.handle.kind().to_owned(),
            volume_handle: self.handle.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::quota::Enforcement;

    fn volume(change: impl FnOnce(&mut serde_json::Value)) -> Option<KnownVolume> {
        let mut volume = json!({
            "metadata": { "name": "pv-1", "annotations": { PROVISIONED_BY: "csi.weka.io" } },
            "spec": {
                "capacity": { "storage": "1Gi" },
                "storageClassName": "class",
                "claimRef": { "namespace": "ns", "name": "claim", "uid": "u-1" },
                "csi": {
                    "driver": "csi.weka.io",
                    "volumeHandle": "weka/v2/fs",
                    "volumeAttributes": { "capacityEnforcement": "SOFT", "quotaGracePeriod": "1h", "more": "x" },
                    "nodePublishSecretRef": { "name": "publish", "namespace": "ns" },
                    "controllerExpandSecretRef": { "name": "expand", "namespace": "ns" },
                },
            },
        });
        change(&mut volume);
        KnownVolume::read(serde_json::from_value(volume).unwrap(), "csi.weka.io")
    }

    #[test]
    fn a_volume_says_how_large_it_is_and_who_can_be_asked_about_it() {
        let known = volume(|_| {}).unwrap();
        assert_eq!(known.bytes, Some(1 << 30));
        assert_eq!(
            known.secret.as_ref().unwrap().name.as_deref(),
            Some("expand")
        );
        let limits = known.limits().unwrap().unwrap();
        let size = Size::from(limits);
        assert_eq!((size.bytes, size.enforcement), (1 << 30, Enforcement::Soft));
        assert_eq!((limits.grace_seconds, known.grace_seconds()), (3600, 3600));
        assert!(!known.is_static && known.context.len() == 2);
        let labels = known.labels("guid");
        assert_eq!((&*labels.pvc_name, &*labels.pvc_uid), ("claim", "u-1"));
    }

    #[test]
    fn what_is_not_a_volume_of_this_driver_is_left_alone() {
        assert!(volume(|it| it["spec"]["csi"]["driver"] = json!("other")).is_none());
        assert!(volume(|it| it["spec"]["csi"]["volumeHandle"] = json!("?")).is_none());
        assert!(volume(|it| it["spec"]["csi"] = json!(null)).is_none());
        let by_hand = volume(|it| it["metadata"]["annotations"] = json!(null)).unwrap();
        assert!(by_hand.is_static);
        let odd = json!({ "capacityEnforcement": "hard" });
        let odd = volume(|it| it["spec"]["csi"]["volumeAttributes"] = odd).unwrap();
        assert!(odd.limits().is_err(), "nothing is guessed");
    }
}
