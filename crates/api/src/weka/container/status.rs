//! What the operator reports about a container.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::driver_deployment::Unknown;
use crate::schema::{conditions, read_text, text};
use crate::weka::state::ContainerState;

/// What is known about a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WekaContainerStatus {
    /// How it is.
    #[serde(default)]
    pub status: ContainerState,
    /// What is so and what is not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The image that its pod runs.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub last_applied_image: String,
    /// The node that it is on.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub node_affinity: String,
    /// Addresses of its pod.
    #[serde(
        default,
        rename = "managementIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub management_ips: Vec<String>,
    /// What is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<ContainerStats>,
    /// For the table that `kubectl get` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printer: Option<ContainerPrinter>,
    /// CSI drivers of which the node may have labels or volumes: the present one, and earlier ones until nothing of them is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub csi_driver_names: Vec<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStats {
    /// Volumes that are attached to the node or mounted there.
    #[serde(default)]
    pub active_mounts: i64,
    /// Why nobody could tell what is mounted without an attachment, when the client was about to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// For the table that `kubectl get` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPrinter {
    /// The first address, and how many more.
    #[serde(
        default,
        rename = "managementIPs",
        skip_serializing_if = "String::is_empty"
    )]
    pub management_ips: String,
    /// The node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_affinity: String,
    /// Volumes that are attached to the node or mounted there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub active_mounts: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
