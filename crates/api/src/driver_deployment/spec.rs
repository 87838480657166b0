//! What an administrator writes.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::status::CSIDriverDeploymentStatus;
use crate::schema::{
    any_object, optional_number_or_text, optional_object, optional_objects, optional_text_map,
    optional_texts, read_text, read_text_map, read_texts, text,
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
    pub management_state: Option<String>,
    /// Name of the driver, as the driver itself reports it and as storage classes name it.
    #[serde(deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub driver_name: String,
    /// Pod template of the driver on each node. The first container is the driver.
    #[schemars(schema_with = "any_object")]
    pub driver_per_node_template: Value,
    /// Pod template of the driver's controller. The first container is the driver. Without it there is no Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub driver_controller_template: Option<Value>,
    /// Path of the CSI socket inside the first container of both templates, such as `/run/csi/csi.sock`.
    #[serde(deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub driver_socket: String,
    /// Seconds between liveness probes of the driver; without it there is no probe. Three failures restart its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_period_seconds: Option<i32>,
    /// Seconds that the driver has to answer a probe. 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_timeout_seconds: Option<i32>,
    /// Storage classes to create with the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_templates: Option<Vec<StorageClassTemplate>>,
    /// How node pods are replaced: `Rolling`; `Draining` for drivers whose restart breaks mounts, which moves the pods
    /// that use the driver away first; or `OnDelete` when somebody deletes them.
    #[serde(deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub node_update_strategy: String,
    /// Node pods that may be missing at a time while they are replaced, `Rolling` or `Draining`: a number, or a part of
    /// all nodes such as `10%`. 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_number_or_text")]
    pub max_unavailable_nodes: Option<Value>,
    /// `Draining` only: what may be moved away, and how long that may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_drain: Option<NodeDrain>,
    /// What deleting this resource does: `WhenUnused` (default) waits until no volume of the driver is left, `Force`
    /// removes the driver at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Replicas of the controller's Deployment. Default: as in the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_replicas: Option<i32>,
    /// Directory of the kubelet. Default: as in the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_root_dir: Option<String>,

    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How nodes are emptied before their driver pod is replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDrain {
    /// Begin with no further node, and leave those that still have their old driver pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Seconds that one node may take before the update stops. 1800 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Seconds to wait once nothing is seen to use the driver, where nobody can tell what is mounted. 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<i32>,
    /// Pods without a controller, which nobody makes again: `Hold` (default) waits for them, `Evict` loses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bare_pods: Option<String>,
    /// Pods with an `emptyDir`, whose content is lost: `Hold` (default) or `Evict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir_pods: Option<String>,
    /// Pods of DaemonSets, which do not move: `Hold` (default) waits for them, `Ignore` replaces the driver under them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_set_pods: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

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
    #[schemars(schema_with = "optional_texts")]
    pub run: Option<Vec<String>>,
    /// Built-in only: no controller pod; the sidecar of each node serves the volumes of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_deployment: Option<bool>,
    /// `Named` (default): sidecars may read the secrets that classes and volumes of the driver name. `Cluster`: all
    /// secrets, which classes with `${pvc...}` in a secret's name need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_access: Option<String>,
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

/// The CSIDriver object. It is created in any case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsiDriverTemplate {
    /// Its spec, as `kubectl explain csidriver.spec` describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub spec: Option<Value>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the object and
    /// creates it again while no volume of the driver is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Name, labels and annotations of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassMetadata {
    /// Name of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the class.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the class.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A StorageClass; its provisioner is the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageClassTemplate {
    /// Name, labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClassMetadata>,
    /// Whether claims without a class get this one. Without it, the mark is an administrator's to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Settings for the driver.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// `Delete` or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<String>,
    /// Mount options of the volumes.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_texts")]
    pub mount_options: Option<Vec<String>>,
    /// Whether claims may be expanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_volume_expansion: Option<bool>,
    /// `Immediate` or `WaitForFirstConsumer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_binding_mode: Option<String>,
    /// Where volumes may be, as in a StorageClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub allowed_topologies: Option<Vec<Value>>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the class and
    /// creates it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A VolumeSnapshotClass of the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClassTemplate {
    /// Name, labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClassMetadata>,
    /// Whether snapshots without a class get this one. Without it, the mark is an administrator's to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Settings for the driver.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// `Delete` (default) or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
    /// Changes of immutable fields: `Report` (default) shows them in a condition, `Recreate` deletes the class and
    /// creates it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
