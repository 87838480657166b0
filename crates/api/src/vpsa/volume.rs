//! Volumes, our own and those of others.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{
    CloneSource, Observed, Segments, Unknown, VolumeFlags, nothing, read_optional_quantity,
    read_quantity,
};
use super::state::{VolumeState, VolumeType};
use crate::schema::{read_text, text};

/// A volume that is to be on an array.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["VSCStorageClassName", "displayName", "size", "volumeType"]))]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "Volume",
    plural = "volumes",
    singular = "volume",
    doc = "A volume on a VPSA. Deleting it deletes the volume.",
    derive = "PartialEq",
    status = "VolumeStatus",
    printcolumn = r#"{"name": "Display Name", "type": "string", "jsonPath": ".spec.displayName"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.volumeType"}"#,
    printcolumn = r#"{"name": "Capacity", "type": "string", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "VPSA", "type": "string", "jsonPath": ".status.VPSAID"}"#,
    printcolumn = r#"{"name": "VPSA Volume ID", "type": "string", "jsonPath": ".status.ID", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VolumeSpec {
    /// The class whose arrays it may be on.
    #[serde(
        default,
        rename = "VSCStorageClassName",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub vsc_storage_class_name: String,
    /// Its name on the array; changing it renames the volume there.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub display_name: String,
    /// Its comment on the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How large it is to be; it can grow and not shrink.
    #[serde(default = "nothing", deserialize_with = "read_quantity")]
    pub size: Quantity,
    /// `NAS` or `Block`.
    #[serde(default)]
    pub volume_type: VolumeType,
    /// Options, in place of those of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<VolumeFlags>,
    /// What it is a clone of, on the same array; absent for a volume that begins empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_source: Option<CloneSource>,
    /// From where it must be reached; absent if from anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<VolumeTopology>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// From where a volume must be reached: labels of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeTopology {
    /// From one of these at least.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requisite: Vec<Segments>,
    /// From the first of these, if that is possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<Segments>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A volume that is on an array.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "ExternalVolume",
    plural = "externalvolumes",
    singular = "externalvolume",
    doc = "A volume on a VPSA that somebody else made. Deleting this object leaves the volume alone.",
    derive = "PartialEq",
    status = "VolumeStatus",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.volumeType"}"#,
    printcolumn = r#"{"name": "Capacity", "type": "string", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "VPSA", "type": "string", "jsonPath": ".status.VPSAID"}"#,
    printcolumn = r#"{"name": "VPSA Volume ID", "type": "string", "jsonPath": ".status.ID"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[schemars(extend("required" = ["VSCStorageClassName", "displayName", "size", "volumeType"]))]
pub struct ExternalVolumeSpec {
    /// The same as of a volume of ours.
    #[serde(flatten)]
    pub volume: VolumeSpec,
}

/// What is known about a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// How it is.
    #[serde(default)]
    pub state: VolumeState,
    /// The VPSA it is on; empty if none is chosen yet.
    #[serde(default, rename = "VPSAID", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub vpsa_id: String,
    /// When the array was last asked to make it and did not refuse. Until then nothing of it can be there; for a while after it
    /// something may be that is not seen yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Time>,
    /// Its identity there, such as `volume-00000001`; empty if not known yet.
    #[serde(default, rename = "ID", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub id: String,
    /// What it was last seen to be called there: not its wanted name as long as the array has not been told that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Its consistency group there, such as `cg-00000001`; empty if not known yet.
    #[serde(default, rename = "CGID", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub cg_id: String,
    /// The pool it is in, such as `pool-00010003`; empty if not known yet.
    #[serde(default, rename = "poolID", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub pool_id: String,
    /// How large it is on the array.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_quantity"
    )]
    pub capacity: Option<Quantity>,
    /// Growth that the array was asked for and that is not seen yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<Expansion>,
    /// Of a share.
    #[serde(default, rename = "NAS", skip_serializing_if = "Option::is_none")]
    pub nas: Option<NasVolume>,
    /// Of a disk.
    #[serde(default, rename = "Block", skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockVolume>,
    /// Generation and conditions.
    #[serde(flatten)]
    pub observed: Observed,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Growth that the array was asked for. The array takes what is added, so nobody may ask twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Expansion {
    /// How large it was.
    #[serde(default = "nothing", deserialize_with = "read_quantity")]
    pub from: Quantity,
    /// When the array was asked.
    pub since: Time,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where a share is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["NFSExportPath", "autoExpandEnabled"]))]
pub struct NasVolume {
    /// Such as `10.10.10.10:/export/name`.
    #[serde(default, rename = "NFSExportPath", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub nfs_export_path: String,
    /// Whether the array lets it grow by itself.
    #[serde(default)]
    pub auto_expand_enabled: bool,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where a disk is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockVolume {
    /// The iSCSI target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
