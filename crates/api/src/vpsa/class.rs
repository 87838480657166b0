//! Classes of arrays.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{Capacity, Observed, Segments, Unknown, VolumeFlags};
use super::state::{ClassState, VolumeType};
use crate::schema::{read_text, text};

/// What an administrator says about a class.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["displayName"]))]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "VSCStorageClass",
    root = "VscStorageClass",
    plural = "vscstorageclasses",
    singular = "vscstorageclass",
    shortname = "vscsc",
    doc = "A group of VPSAs that volumes are spread over.",
    derive = "PartialEq",
    status = "VscStorageClassStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Default", "type": "boolean", "jsonPath": ".spec.isDefault"}"#,
    printcolumn = r#"{"name": "Members", "type": "integer", "jsonPath": ".status.counters.VPSA"}"#,
    printcolumn = r#"{"name": "Capacity Mode", "type": "string", "jsonPath": ".status.capacity.mode"}"#,
    printcolumn = r#"{"name": "Total", "type": "string", "jsonPath": ".status.capacity.total", "priority": 1}"#,
    printcolumn = r#"{"name": "Available", "type": "string", "jsonPath": ".status.capacity.available", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VscStorageClassSpec {
    /// The name that people see.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub display_name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether storage classes that name none get this one. At most one class should say so; it cannot be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_default: Option<bool>,
    /// Options of new volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_flags: Option<VolumeFlags>,
    /// The pool to use on each member, by its name or identity. Without it a member must have exactly one pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_name: Option<String>,
    /// How filesystem volumes are reached: `NAS` (default) over NFS, `Block` as a filesystem on an iSCSI disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
    /// From where its members are reached that do not say so themselves: nodes that have all labels of one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<Segments>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about a class: its members, taken together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VscStorageClassStatus {
    /// How it is.
    #[serde(default)]
    pub state: ClassState,
    /// The capacity of all members; the mode is the worst among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What all members have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<ClassCounters>,
    /// Generation and conditions.
    #[serde(flatten)]
    pub observed: Observed,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["VPSA", "pools", "snapshots", "volumes"]))]
pub struct ClassCounters {
    /// Member arrays.
    #[serde(default, rename = "VPSA")]
    pub vpsa: i64,
    /// Pools.
    #[serde(default)]
    pub pools: i64,
    /// Snapshots.
    #[serde(default)]
    pub snapshots: i64,
    /// Volumes.
    #[serde(default)]
    pub volumes: i64,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
