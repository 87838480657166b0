//! Snapshots.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{Observed, Unknown, read_optional_quantity};
use super::state::{DeletionPolicy, SnapshotState};
use crate::schema::{read_text, text};

/// A snapshot that is to be on an array.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["displayName", "volumeID"]))]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "Snapshot",
    plural = "snapshots",
    singular = "snapshot",
    doc = "A snapshot of a Volume on a VPSA.",
    derive = "PartialEq",
    status = "SnapshotStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Volume", "type": "string", "jsonPath": ".spec.volumeID"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct SnapshotSpec {
    /// Its name on the array.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub display_name: String,
    /// Its comment on the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The name of the Volume.
    #[serde(default, rename = "volumeID", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub volume_id: String,
    /// What deleting this object does on the array: `Delete` (default), or `Retain` for snapshots that others took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// How it is.
    #[serde(default)]
    pub state: SnapshotState,
    /// How large the volume was when it was taken, and how large a clone of it is.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_quantity"
    )]
    pub size: Option<Quantity>,
    /// When it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_timestamp: Option<Time>,
    /// The VPSA it is on.
    #[serde(default, rename = "VPSAID", skip_serializing_if = "Option::is_none")]
    pub vpsa_id: Option<String>,
    /// The consistency group of the volume there.
    #[serde(default, rename = "CGID", skip_serializing_if = "Option::is_none")]
    pub cg_id: Option<String>,
    /// The pool of the volume there.
    #[serde(default, rename = "poolID", skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    /// The volume there.
    #[serde(
        default,
        rename = "VPSAVolumeID",
        skip_serializing_if = "Option::is_none"
    )]
    pub vpsa_volume_id: Option<String>,
    /// When the array was last asked to take it and did not refuse. Until then it is not there; for a while after it it may be,
    /// and not be seen yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Time>,
    /// Its own identity there, such as `snap-00000001`.
    #[serde(
        default,
        rename = "VPSASnapshotID",
        skip_serializing_if = "Option::is_none"
    )]
    pub vpsa_snapshot_id: Option<String>,
    /// Generation and conditions.
    #[serde(flatten)]
    pub observed: Observed,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
