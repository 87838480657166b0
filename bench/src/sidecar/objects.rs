//! Objects, as JSON.

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stage::DRIVER;

/// The label of what was made for one part of the measurement, so that it can be deleted.
pub const PART: &str = "part";

/// A volume that the sidecar wrote: others are made after its image.
pub struct Model(Value);

impl Model {
    /// Takes what the sidecar wrote, without what the server added.
    pub fn of(written: &PersistentVolume) -> anyhow::Result<Self> {
        let mut object = serde_json::to_value(written)?;
        object["status"] = Value::Null;
        let metadata = object["metadata"].as_object_mut();
        let metadata = metadata.context("a volume without metadata")?;
        metadata.retain(|key, _| matches!(key.as_str(), "annotations" | "finalizers"));
        // The server and the binder have added theirs.
        metadata.insert(
            "finalizers".to_owned(),
            json!(["external-provisioner.volume.kubernetes.io/finalizer"]),
        );
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            annotations.remove("pv.kubernetes.io/bound-by-controller");
        }
        Ok(Self(object))
    }

    /// The volume of a claim, such as the sidecar would write it.
    pub fn volume(&self, part: &str, claim: &PersistentVolumeClaim) -> PersistentVolume {
        let uid = claim.uid().unwrap_or_default();
        let mut object = self.0.clone();
        object["metadata"]["name"] = json!(volume_name(&uid));
        object["metadata"]["labels"] = json!({PART: part});
        object["spec"]["claimRef"]["namespace"] = json!(claim.namespace());
        object["spec"]["claimRef"]["name"] = json!(claim.name_any());
        object["spec"]["claimRef"]["uid"] = json!(uid);
        object["spec"]["csi"]["volumeHandle"] = json!(format!("bare-{uid}"));
        read(object)
    }
}

/// How the sidecar calls the volume of a claim.
pub fn volume_name(uid: &str) -> String {
    format!("pvc-{uid}")
}

/// A node in a zone of its own, and what its kubelet says of the driver.
pub fn node(number: usize) -> (Node, CSINode) {
    let name = format!("far-{number}");
    let node = read(json!({
        "metadata": {"name": name, "labels": {"zone": format!("zone-{number}")}},
    }));
    let driver = json!({"name": DRIVER, "nodeID": name, "topologyKeys": ["zone"]});
    let csi_node = read(json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}}));
    (node, csi_node)
}

/// The class of all claims.
pub fn class() -> StorageClass {
    read(json!({
        "metadata": {"name": DRIVER},
        "provisioner": DRIVER,
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": true,
        "volumeBindingMode": "Immediate",
    }))
}

/// The name of a claim.
pub fn claim_name(number: usize) -> String {
    format!("claim-{number}")
}

/// A claim that waits.
pub fn claim(namespace: &str, number: usize) -> PersistentVolumeClaim {
    read(json!({
        "metadata": {
            "name": claim_name(number),
            "namespace": namespace,
            "labels": {PART: namespace},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": DRIVER,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))
}

/// The same, where no controller of Kubernetes runs that would say whose turn it is.
pub fn claim_for_driver(namespace: &str, number: usize) -> PersistentVolumeClaim {
    let mut claim = claim(namespace, number);
    for key in [
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/storage-provisioner",
    ] {
        claim
            .annotations_mut()
            .insert(key.to_owned(), DRIVER.to_owned());
    }
    claim
}

/// A claim that has its volume, `volume`.
pub fn bound_claim(namespace: &str, number: usize, volume: &str) -> PersistentVolumeClaim {
    let mut claim = claim_for_driver(namespace, number);
    for key in [
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
    ] {
        claim
            .annotations_mut()
            .insert(key.to_owned(), "yes".to_owned());
    }
    if let Some(spec) = &mut claim.spec {
        spec.volume_name = Some(volume.to_owned());
    }
    claim
}

/// A volume is wanted on a node.
pub fn attachment(part: &str, number: usize, volume: &str, node: &str) -> VolumeAttachment {
    read(json!({
        "metadata": {"name": format!("{part}-{number}"), "labels": {PART: part}},
        "spec": {
            "attacher": DRIVER,
            "nodeName": node,
            "source": {"persistentVolumeName": volume},
        },
    }))
}

/// An object of a kind.
pub fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("an object of this kind")
}
