//! Sidecars, their rights, and what is read of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spec::Unknown;
use crate::schema::{
    optional_object, optional_objects, optional_text_map, optional_text_set, optional_texts,
    read_text_map, read_texts,
};

/// Images of the Kubernetes project's sidecars.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerImages {
    /// Image of the external attacher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attacher_image: Option<String>,
    /// Image of the external provisioner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioner_image: Option<String>,
    /// Image of the node driver registrar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_registrar_image: Option<String>,
    /// Image of the liveness probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe_image: Option<String>,
    /// Image of the external resizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resizer_image: Option<String>,
    /// Image of the snapshotter sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshotter_image: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Which sidecars run beside the driver, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sidecars {
    /// `Builtin` (default): one container of Stowage per pod. `Upstream`: the Kubernetes project's sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Builtin", "Upstream"]))]
    pub mode: Option<String>,
    /// Image of the built-in sidecar. Default: as in the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Upstream only: which sidecars serve the controller, of `Provisioner`, `Attacher` (both by default),
    /// `Resizer` and `Snapshotter`. The built-in one asks the driver what it supports.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_text_set")]
    pub run: Option<Vec<String>>,
    /// Built-in only: no controller pod; the sidecar of each node serves the volumes of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_deployment: Option<bool>,
    /// `Named` (default): sidecars may read the secrets that classes and volumes of the driver name. `Cluster`: all
    /// secrets, which classes with `${pvc...}` in a secret's name need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Named", "Cluster"]))]
    pub secret_access: Option<String>,
    /// How much sidecars log, as a number of klog: 2 is little, 5 is much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub log_level: Option<i32>,
    /// Resources and further arguments by container: `controller` and `node` of the built-in sidecar; `provisioner`,
    /// `attacher`, `resizer`, `snapshotter`, `registrar` and `livenessProbe` of the Kubernetes project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<BTreeMap<String, SidecarContainer>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Settings of one sidecar container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainer {
    /// Requests and limits, as in a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub resources: Option<Value>,
    /// Arguments after the operator's own, which they override.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_texts")]
    pub extra_args: Option<Vec<String>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Rules for the accounts of the driver's pods, beside those that its sidecars need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraRules {
    /// For controller pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ScopedRules>,
    /// For node pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<ScopedRules>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Rules, as in a Role. The operator can grant only what it has been granted itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopedRules {
    /// In the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub cluster: Option<Vec<Value>>,
    /// In the namespace of this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub namespace: Option<Vec<Value>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Objects in the namespace of this resource; the driver's pods are replaced when one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartOn {
    /// Names of ConfigMaps: their content.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_text_set")]
    pub config_maps: Option<Vec<String>>,
    /// Names of Secrets: any change of them.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_text_set")]
    pub secrets: Option<Vec<String>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How the metrics of the built-in sidecar in controller pods are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Whether there is a Service `<name>-controller-metrics`. Also without it the port `csi-metrics` is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<bool>,
    /// A ServiceMonitor for the Prometheus operator, and the Service that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitor>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A ServiceMonitor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitor {
    /// Labels by which a Prometheus finds it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub labels: Option<BTreeMap<String, String>>,
    /// How often metrics are read, such as `30s`. Default: as Prometheus is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
