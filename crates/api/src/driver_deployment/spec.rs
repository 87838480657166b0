//! What an administrator writes.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::classes::{
    CsiDriverTemplate, StorageClassTemplate, VolumeAttributesClassTemplate,
    VolumeSnapshotClassTemplate,
};
use super::sidecars::{ContainerImages, ExtraRules, Metrics, RestartOn, Sidecars};
use super::status::CSIDriverDeploymentStatus;
use super::updates::NodeDrain;
use super::variants::NodeVariant;
use crate::schema::{
    absolute_path, any_object, driver_name, one_of, optional_number_or_text, optional_object,
    optional_taint_key, read_text, text,
};

/// Fields that this version does not know.
pub type Unknown = BTreeMap<String, Value>;

/// How a CSI driver runs: on every node, and beside the sidecars that serve the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "csidriver.storage.openshift.io",
    version = "v1alpha1",
    kind = "CSIDriverDeployment",
    plural = "csidriverdeployments",
    shortname = "cdd",
    doc = "The deployment of one CSI driver.",
    namespaced,
    derive = "PartialEq",
    status = "CSIDriverDeploymentStatus",
    printcolumn = r#"{"name": "Driver", "type": "string", "jsonPath": ".spec.driverName"}"#,
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"}"#,
    printcolumn = r#"{"name": "SyncSuccessful", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"SyncSuccessful\")].status"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct CSIDriverDeploymentSpec {
    /// `Managed` (default): the operator keeps everything as described here. `Unmanaged`: it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "Managed", "Unmanaged"]))]
    pub management_state: Option<String>,
    /// Name of the driver, as the driver itself reports it and as storage classes name it.
    #[serde(deserialize_with = "read_text")]
    #[schemars(schema_with = "driver_name")]
    pub driver_name: String,
    /// Pod template of the driver on each node. The first container is the driver.
    #[schemars(schema_with = "any_object")]
    pub driver_per_node_template: Value,
    /// Nodes that need other pods than those of `driverPerNodeTemplate`. A node runs the pods of one template: of the first
    /// variant whose label it has, or of `driverPerNodeTemplate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_variants: Option<Vec<NodeVariant>>,
    /// Pod template of the driver's controller. The first container is the driver. Without it there is no Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub driver_controller_template: Option<Value>,
    /// Path of the CSI socket inside the first container of all templates, such as `/run/csi/csi.sock`.
    #[serde(deserialize_with = "read_text")]
    #[schemars(schema_with = "absolute_path")]
    pub driver_socket: String,
    /// Seconds between liveness probes of the driver; without it there is no probe. Three failures restart its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub probe_period_seconds: Option<i32>,
    /// Seconds that the driver has to answer a probe. 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub probe_timeout_seconds: Option<i32>,
    /// Storage classes to create with the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_templates: Option<Vec<StorageClassTemplate>>,
    /// How node pods are replaced: `Rolling`; `Draining` for drivers whose restart breaks mounts, which moves the pods
    /// that use the driver away first; or `OnDelete` when somebody deletes them.
    #[serde(deserialize_with = "read_text")]
    #[schemars(schema_with = "update_strategy")]
    pub node_update_strategy: String,
    /// Node pods that may be missing at a time while they are replaced, `Rolling` or `Draining`: a number, or a part of
    /// all nodes such as `10%`. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_number_or_text")]
    pub max_unavailable_nodes: Option<Value>,
    /// `Draining` only: what may be moved away, and how long that may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_drain: Option<NodeDrain>,
    /// Key of a taint with which kubelets register new nodes. The operator removes it as soon as the driver is registered
    /// there, so that no pod comes to a node before its storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_taint_key")]
    pub startup_taint: Option<String>,
    /// What deleting this resource does: `WhenUnused` (default) waits until no volume of the driver is left, `Force`
    /// removes the driver at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["WhenUnused", "Force"]))]
    pub uninstall_policy: Option<String>,
    /// Images of the Kubernetes project's sidecars. Setting one selects them (`sidecars.mode: Upstream`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_images: Option<ContainerImages>,

    /// Which sidecars run beside the driver, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecars: Option<Sidecars>,
    /// The CSIDriver object: how Kubernetes treats the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi_driver: Option<CsiDriverTemplate>,
    /// Snapshot classes to create with the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_templates: Option<Vec<VolumeSnapshotClassTemplate>>,
    /// Classes of snapshots of several volumes at once to create with the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_class_templates: Option<Vec<VolumeSnapshotClassTemplate>>,
    /// Classes of what can be changed of volumes to create with the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_templates: Option<Vec<VolumeAttributesClassTemplate>>,
    /// Rules for the accounts of the driver's pods, where the operator makes them, beside those that its sidecars need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_rules: Option<ExtraRules>,
    /// ConfigMaps and Secrets whose changes replace the driver's pods, as a changed template does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_on: Option<RestartOn>,
    /// How the metrics of the built-in sidecar are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Replicas of the controller's Deployment. Default: as in the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub controller_replicas: Option<i32>,
    /// Secrets that the driver reads as files: in the first container of all templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_secrets: Option<Vec<DriverSecret>>,
    /// Directory of the kubelet. Default: as in the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "absolute_path")]
    pub kubelet_root_dir: Option<String>,

    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

fn update_strategy(_: &mut SchemaGenerator) -> Schema {
    one_of(&["Draining", "OnDelete", "Rolling"])
}

/// A secret that the driver reads as files, one for each key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverSecret {
    /// Name of the Secret, in the namespace of this resource.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub secret_name: String,
    /// Directory of its files in the driver's container.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "absolute_path")]
    pub mount_path: String,
    /// `true`: pods start without it, and get it about a minute after it was created. By default they wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
