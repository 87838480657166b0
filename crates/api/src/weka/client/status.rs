//! What the operator reports about a client.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::driver_deployment::Unknown;
use crate::schema::conditions;
use crate::weka::state::ClientState;

/// What is known about a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WekaClientStatus {
    /// How it is.
    #[serde(default)]
    pub status: ClientState,
    /// The last generation that was put into effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is so and what is not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// How many containers there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<ClientStats>,
    /// The same for the table that `kubectl get` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printer: Option<ClientPrinter>,
    /// Whether CSIDriver, storage classes and controller are as they should be.
    #[serde(default)]
    pub csi_deployed: bool,
    /// The CSI driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi: Option<ClientCsiStatus>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientStats {
    /// Of containers.
    #[serde(default)]
    pub containers: ClientCounts,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCounts {
    /// That serve.
    #[serde(default)]
    pub active: i64,
    /// That are there.
    #[serde(default)]
    pub created: i64,
    /// That there should be.
    #[serde(default)]
    pub desired: i64,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// For the table that `kubectl get` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientPrinter {
    /// Active, created and desired containers: `1/2/3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub containers: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The CSI driver of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCsiStatus {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver_name: String,
    /// The WekaClient whose node selector and tolerations the controller has, `namespace/name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The Deployment of its controller, `namespace/name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller: String,
    /// Its storage classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_classes: Vec<String>,
    /// Ready node pods of desired ones: `2/3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// A hash over everything that was rendered for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config_hash: String,
    /// The version of the plugin, as configured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver_version: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
