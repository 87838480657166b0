//! `snapshot.storage.k8s.io/v1`: one snapshot of one volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::bound_object;
use super::{DeletionPolicy, VolumeSnapshotError};

/// What a user asks for: a snapshot of a claim, or a name for a snapshot that already exists.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "snapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeSnapshot",
    doc = "A request for a snapshot of a volume, in the namespace of its claim.",
    namespaced,
    derive = "PartialEq",
    status = "VolumeSnapshotStatus",
    shortname = "vs",
    printcolumn = r#"{"name": "ReadyToUse", "type": "boolean", "jsonPath": ".status.readyToUse"}"#,
    printcolumn = r#"{"name": "SourcePVC", "type": "string", "jsonPath": ".spec.source.persistentVolumeClaimName"}"#,
    printcolumn = r#"{"name": "SourceSnapshotContent", "type": "string", "jsonPath": ".spec.source.volumeSnapshotContentName"}"#,
    printcolumn = r#"{"name": "RestoreSize", "type": "string", "jsonPath": ".status.restoreSize"}"#,
    printcolumn = r#"{"name": "SnapshotClass", "type": "string", "jsonPath": ".spec.volumeSnapshotClassName"}"#,
    printcolumn = r#"{"name": "SnapshotContent", "type": "string", "jsonPath": ".status.boundVolumeSnapshotContentName"}"#,
    printcolumn = r#"{"name": "CreationTime", "type": "date", "jsonPath": ".status.creationTime"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeSnapshotSpec {
    /// Where the snapshot comes from. Must not change after creation.
    pub source: VolumeSnapshotSource,
    /// The VolumeSnapshotClass to use; absent means the default class of the source's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub volume_snapshot_class_name: Option<String>,
}

/// Exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [
    {"required": ["persistentVolumeClaimName"]},
    {"required": ["volumeSnapshotContentName"]},
]))]
pub struct VolumeSnapshotSource {
    /// The claim, in the same namespace, whose volume is to be snapshotted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// The VolumeSnapshotContent that stands for a snapshot which already exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

/// What is known about the snapshot; copied from the content it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// The content this snapshot means to be bound to; valid only if that content refers back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// When the storage system took the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// Whether a volume can be restored from the snapshot; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The smallest volume that can be restored from the snapshot; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    /// The last error; removed once the snapshot succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The VolumeGroupSnapshot this snapshot is a member of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_name: Option<String>,
}

/// How a driver takes snapshots. On the wire these fields stand beside `metadata`: there is no `spec`.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "snapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeSnapshotClass",
    doc = "How a driver takes snapshots: what a StorageClass is for volumes.",
    no_spec,
    derive = "PartialEq",
    shortname = "vsclass",
    shortname = "vsclasses",
    printcolumn = r#"{"name": "Driver", "type": "string", "jsonPath": ".driver"}"#,
    printcolumn = r#"{"name": "DeletionPolicy", "type": "string", "jsonPath": ".deletionPolicy"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeSnapshotClassSpec {
    /// The CSI driver that takes the snapshots.
    pub driver: String,
    /// Settings for the driver, opaque to Kubernetes apart from keys below `csi.storage.k8s.io/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// What happens to the snapshot on the storage system when its VolumeSnapshot is deleted.
    pub deletion_policy: DeletionPolicy,
}

/// The snapshot as the driver knows it, and the VolumeSnapshot it belongs to.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "snapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeSnapshotContent",
    doc = "A snapshot on the storage system: what a PersistentVolume is for volumes.",
    derive = "PartialEq",
    status = "VolumeSnapshotContentStatus",
    shortname = "vsc",
    shortname = "vscs",
    printcolumn = r#"{"name": "ReadyToUse", "type": "boolean", "jsonPath": ".status.readyToUse"}"#,
    printcolumn = r#"{"name": "RestoreSize", "type": "integer", "jsonPath": ".status.restoreSize"}"#,
    printcolumn = r#"{"name": "DeletionPolicy", "type": "string", "jsonPath": ".spec.deletionPolicy"}"#,
    printcolumn = r#"{"name": "Driver", "type": "string", "jsonPath": ".spec.driver"}"#,
    printcolumn = r#"{"name": "VolumeSnapshotClass", "type": "string", "jsonPath": ".spec.volumeSnapshotClassName"}"#,
    printcolumn = r#"{"name": "VolumeSnapshot", "type": "string", "jsonPath": ".spec.volumeSnapshotRef.name"}"#,
    printcolumn = r#"{"name": "VolumeSnapshotNamespace", "type": "string", "jsonPath": ".spec.volumeSnapshotRef.namespace"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeSnapshotContentSpec {
    /// The VolumeSnapshot this content is bound to; name and namespace are set from the start, the uid
    /// once that object exists.
    #[schemars(schema_with = "bound_object")]
    pub volume_snapshot_ref: ObjectReference,
    /// What happens to the snapshot on the storage system when the VolumeSnapshot is deleted.
    pub deletion_policy: DeletionPolicy,
    /// The CSI driver that holds the snapshot.
    pub driver: String,
    /// The class the snapshot was made with. The class may have changed or gone since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// What the driver is given. Must not change after creation.
    pub source: VolumeSnapshotContentSource,
    /// `Filesystem` or `Block`, the mode of the volume that was snapshotted; absent means unknown.
    /// Must not change once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_volume_mode: Option<String>,
}

/// Exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [{"required": ["volumeHandle"]}, {"required": ["snapshotHandle"]}]))]
pub struct VolumeSnapshotContentSource {
    /// The CSI id of the volume to take a snapshot of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// The CSI id of a snapshot that exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
}

/// What the driver said about the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContentStatus {
    /// The CSI id of the snapshot; absent while it has not been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// When the storage system took the snapshot, in nanoseconds since 1970 (not a timestamp string,
    /// unlike the field of the same name in VolumeSnapshot).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// Size of the snapshot in bytes; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub restore_size: Option<i64>,
    /// Whether a volume can be restored from the snapshot; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The last error; removed once the snapshot succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The CSI id of the group snapshot this snapshot is a member of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
}
