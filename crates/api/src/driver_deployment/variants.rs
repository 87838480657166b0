//! Nodes that need other pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spec::Unknown;
use crate::schema::{any_object, read_text, text};

/// Nodes that need other pods than most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVariant {
    /// Ends the name of their DaemonSet: up to 20 small letters and digits.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub name: String,
    /// Label by which the nodes are known.
    #[serde(default)]
    pub node_label: NodeLabel,
    /// Pod template of the driver on these nodes. The first container is the driver.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub template: Value,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A label of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeLabel {
    /// Its key.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub key: String,
    /// Its value. Nodes without the label, and those where it has another value, are not meant.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub value: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
