//! What a client says about its CSI driver.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::driver_deployment::Unknown;
use crate::schema::{optional_objects, optional_text_map, read_text, read_text_map, text};

/// What a client says about its CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCsiConfig {
    /// Tells drivers of several clusters apart, where there is no target cluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub csi_group: String,
    /// Whether somebody else runs the driver's controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_controller_creation: Option<bool>,
    /// What few need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advanced: Option<CsiAdvanced>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What few need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsiAdvanced {
    /// Whether certificates of the cluster are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_trusted_https: Option<bool>,
    /// Whether the data of deleted volumes stays in the trash directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_garbage_collection: Option<bool>,
    /// Labels of node pods.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub node_labels: Option<BTreeMap<String, String>>,
    /// Further tolerations of node pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub node_tolerations: Option<Vec<Toleration>>,
    /// Labels of the controller.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub controller_labels: Option<BTreeMap<String, String>>,
    /// Further tolerations of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub controller_tolerations: Option<Vec<Toleration>>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
