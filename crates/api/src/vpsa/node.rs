//! Nodes.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::{Observed, Unknown};
use crate::schema::{read_text, text};

/// How arrays know a node.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["displayName"]))]
#[kube(
    group = "storage.zadara.com",
    version = "v1",
    kind = "VSCNode",
    root = "VscNode",
    plural = "vscnodes",
    singular = "vscnode",
    doc = "A node of the cluster, and the template of its Server record on VPSAs.",
    derive = "PartialEq",
    status = "VscNodeStatus",
    printcolumn = r#"{"name": "IP", "type": "string", "jsonPath": ".spec.NAS.IP"}"#,
    printcolumn = r#"{"name": "IQN", "type": "string", "jsonPath": ".spec.block.IQN"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct VscNodeSpec {
    /// The name that people see.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub display_name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its address in the storage network.
    #[serde(default, rename = "NAS", skip_serializing_if = "Option::is_none")]
    pub nas: Option<NasAddress>,
    /// Its name among iSCSI initiators; absent on a node without iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockAddress>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How NFS knows a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["IP"]))]
pub struct NasAddress {
    /// The address from which it reaches arrays.
    #[serde(default, rename = "IP", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub ip: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How iSCSI knows a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["IQN"]))]
pub struct BlockAddress {
    /// The name of its initiator.
    #[serde(default, rename = "IQN", deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub iqn: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VscNodeStatus {
    /// Generation and conditions.
    #[serde(flatten)]
    pub observed: Observed,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
