//! `groupsnapshot.storage.k8s.io/v1`: snapshots of several volumes, taken at one point in time.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{bound_object, label_selector};
use super::{DeletionPolicy, VolumeSnapshotError};

/// What a user asks for: one snapshot across several claims, or a name for one that already exists.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "groupsnapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeGroupSnapshot",
    doc = "A request for a snapshot of several volumes at one point in time.",
    namespaced,
    derive = "PartialEq",
    status = "VolumeGroupSnapshotStatus",
    shortname = "vgs",
    printcolumn = r#"{"name": "ReadyToUse", "type": "boolean", "jsonPath": ".status.readyToUse"}"#,
    printcolumn = r#"{"name": "VolumeGroupSnapshotClass", "type": "string", "jsonPath": ".spec.volumeGroupSnapshotClassName"}"#,
    printcolumn = r#"{"name": "VolumeGroupSnapshotContent", "type": "string", "jsonPath": ".status.boundVolumeGroupSnapshotContentName"}"#,
    printcolumn = r#"{"name": "CreationTime", "type": "date", "jsonPath": ".status.creationTime"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeGroupSnapshotSpec {
    /// Where the group snapshot comes from. Must not change after creation.
    pub source: VolumeGroupSnapshotSource,
    /// The VolumeGroupSnapshotClass to use; absent means the default class of the volumes' driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub volume_group_snapshot_class_name: Option<String>,
}

/// Exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [{"required": ["selector"]}, {"required": ["volumeGroupSnapshotContentName"]}]))]
pub struct VolumeGroupSnapshotSource {
    /// The claims, in the same namespace, whose volumes are snapshotted together. Labels that change
    /// later do not change the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub selector: Option<LabelSelector>,
    /// The VolumeGroupSnapshotContent that stands for a group snapshot which already exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_content_name: Option<String>,
}

/// What is known about the group snapshot; copied from the content it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotStatus {
    /// The content this object means to be bound to; valid only if that content refers back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_volume_group_snapshot_content_name: Option<String>,
    /// When the storage system took the group snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// Whether every member can be restored; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The last error; removed once the group snapshot succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
}

/// How a driver takes group snapshots. On the wire there is no `spec`, as in VolumeSnapshotClass.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "groupsnapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeGroupSnapshotClass",
    doc = "How a driver takes group snapshots: what a StorageClass is for volumes.",
    no_spec,
    derive = "PartialEq",
    shortname = "vgsclass",
    shortname = "vgsclasses",
    printcolumn = r#"{"name": "Driver", "type": "string", "jsonPath": ".driver"}"#,
    printcolumn = r#"{"name": "DeletionPolicy", "type": "string", "jsonPath": ".deletionPolicy"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeGroupSnapshotClassSpec {
    /// The CSI driver that takes the group snapshots.
    pub driver: String,
    /// Settings for the driver, opaque to Kubernetes apart from keys below `csi.storage.k8s.io/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// What happens to the snapshots on the storage system when their VolumeGroupSnapshot is deleted.
    pub deletion_policy: DeletionPolicy,
}

/// The group snapshot as the driver knows it, and the VolumeGroupSnapshot it belongs to.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "groupsnapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeGroupSnapshotContent",
    doc = "A group snapshot on the storage system.",
    derive = "PartialEq",
    status = "VolumeGroupSnapshotContentStatus",
    shortname = "vgsc",
    shortname = "vgscs",
    printcolumn = r#"{"name": "ReadyToUse", "type": "boolean", "jsonPath": ".status.readyToUse"}"#,
    printcolumn = r#"{"name": "DeletionPolicy", "type": "string", "jsonPath": ".spec.deletionPolicy"}"#,
    printcolumn = r#"{"name": "Driver", "type": "string", "jsonPath": ".spec.driver"}"#,
    printcolumn = r#"{"name": "VolumeGroupSnapshotClass", "type": "string", "jsonPath": ".spec.volumeGroupSnapshotClassName"}"#,
    printcolumn = r#"{"name": "VolumeGroupSnapshotNamespace", "type": "string", "jsonPath": ".spec.volumeGroupSnapshotRef.namespace"}"#,
    printcolumn = r#"{"name": "VolumeGroupSnapshot", "type": "string", "jsonPath": ".spec.volumeGroupSnapshotRef.name"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeGroupSnapshotContentSpec {
    /// The VolumeGroupSnapshot this content is bound to; name and namespace are set from the start,
    /// the uid once that object exists.
    #[schemars(schema_with = "bound_object")]
    pub volume_group_snapshot_ref: ObjectReference,
    /// What happens to the snapshots on the storage system when the VolumeGroupSnapshot is deleted.
    pub deletion_policy: DeletionPolicy,
    /// The CSI driver that holds the snapshots.
    pub driver: String,
    /// The class the group snapshot was made with; required unless the snapshots exist already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_class_name: Option<String>,
    /// What the driver is given. Must not change after creation.
    pub source: VolumeGroupSnapshotContentSource,
}

/// Exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [{"required": ["volumeHandles"]}, {"required": ["groupSnapshotHandles"]}]))]
pub struct VolumeGroupSnapshotContentSource {
    /// The CSI ids of the volumes to take a snapshot of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handles: Option<Vec<String>>,
    /// The CSI ids of snapshots that exist already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_snapshot_handles: Option<GroupSnapshotHandles>,
}

/// A group snapshot that exists on the storage system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSnapshotHandles {
    /// The CSI id of the group snapshot.
    pub volume_group_snapshot_handle: String,
    /// The CSI ids of its members.
    pub volume_snapshot_handles: Vec<String>,
}

/// What the driver said about the group snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotContentStatus {
    /// The CSI id of the group snapshot; absent while it has not been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
    /// When the storage system took the group snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// Whether every member can be restored; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The last error; removed once the group snapshot succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The members of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_info_list: Option<Vec<VolumeSnapshotInfo>>,
    /// The members as definitions of `v1beta1` by others have them: handles only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub volume_snapshot_handle_pair_list: Option<Vec<VolumeSnapshotInfo>>,
}

/// One member of a group snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotInfo {
    /// The CSI id of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// The CSI id of its snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// When the storage system took the snapshot, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// Whether a volume can be restored from the snapshot; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Size of the snapshot in bytes; absent means unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
}
