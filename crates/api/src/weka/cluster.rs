//! A Weka cluster, as far as its clients need it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::driver_deployment::Unknown;
use crate::schema::{conditions, read_text, text};

/// What an administrator says about a cluster. Most of it is not for us, and kept.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "weka.weka.io",
    version = "v1alpha1",
    kind = "WekaCluster",
    plural = "wekaclusters",
    namespaced,
    doc = "A Weka cluster that clients join.",
    derive = "PartialEq",
    derive = "Default",
    status = "WekaClusterStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.status"}"#,
    printcolumn = r#"{"name": "Cluster ID", "type": "string", "jsonPath": ".status.clusterID", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct WekaClusterSpec {
    /// How the CSI driver of this cluster's clients is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi_config: Option<ClusterCsiConfig>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What a cluster says about the CSI driver of its clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCsiConfig {
    /// The name of the driver, as it is; `csi.weka.io` is that of a separately installed plugin.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub csi_driver_name: String,
    /// The group of the driver in the naming scheme `released`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub csi_group: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WekaClusterStatus {
    /// How it is.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub status: String,
    /// Its identity.
    #[serde(default, rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// What is so and what is not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
