//! A Weka client on one node.

mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::PortRange;
use super::state::{ContainerMode, CpuPolicy, DesiredState, UpgradeType};
use crate::driver_deployment::Unknown;
use crate::schema::{
    optional_object, optional_objects, optional_text_map, optional_texts, read_text, read_text_map,
    read_texts, text,
};
pub use status::{ContainerPrinter, ContainerStats, WekaContainerStatus};

/// What a container is to be. The operator writes it; what people change by hand is taken back.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["image", "mode", "name", "numCores"]))]
#[kube(
    group = "weka.weka.io",
    version = "v1alpha1",
    kind = "WekaContainer",
    plural = "wekacontainers",
    namespaced,
    doc = "A Weka client on one node.",
    derive = "PartialEq",
    derive = "Default",
    status = "WekaContainerStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.status"}"#,
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "Management IPs", "type": "string", "jsonPath": ".status.printer.managementIPs"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.printer.nodeAffinity"}"#,
    printcolumn = r#"{"name": "Mounts", "type": "string", "jsonPath": ".status.printer.activeMounts", "priority": 1}"#,
    printcolumn = r#"{"name": "CSI Driver", "type": "string", "jsonPath": ".spec.csiDriverName", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct WekaContainerSpec {
    /// The node, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<String>,
    /// The labels that the node was chosen by.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Port; 0: one of `portRange`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Port of the agent; 0: one of `portRange`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_port: Option<i32>,
    /// Where free ports are looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_range: Option<PortRange>,
    /// The image.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub image: String,
    /// The secret with which it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,
    /// Its name in the Weka cluster.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub mode: ContainerMode,
    /// How many cores it has.
    #[serde(default)]
    pub num_cores: i32,
    /// Which ones, with the policy `manual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_ids: Option<Vec<i32>>,
    /// How it gets its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_policy: Option<CpuPolicy>,
    /// Network devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub network: Option<Value>,
    /// MiB of huge pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<i32>,
    /// MiB of them that it leaves alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages_offset: Option<i32>,
    /// Where drivers of the kernel come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drivers_dist_service: Option<String>,
    /// The secret with which it joins: its name is in `secretKeyRef.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub weka_secret_ref: Option<Value>,
    /// Backends to join, `ip:port`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_texts")]
    pub join_ip_ports: Option<Vec<String>>,
    /// What is kept of traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub traces_configuration: Option<Value>,
    /// Tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub tolerations: Option<Vec<Toleration>>,
    /// MiB of memory beside what is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_memory: Option<i32>,
    /// The account of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Requests and limits in place of what is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub resources: Option<Value>,
    /// How it gets another image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_policy_type: Option<UpgradeType>,
    /// Whether it may get another image while something is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_hot_upgrade: Option<bool>,
    /// What is to become of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DesiredState>,
    /// After which time the cluster forgets it when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_remove_timeout: Option<String>,
    /// The CSI driver whose node pod stands beside it; empty: none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "read_text"
    )]
    #[schemars(schema_with = "text")]
    pub csi_driver_name: String,
    /// Exceptions: `skipActiveMountsCheck`, `forceDrain` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub overrides: Option<Value>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl WekaContainerSpec {
    /// Whether an exception is made.
    pub fn is_overridden(&self, name: &str) -> bool {
        let overrides = self.overrides.as_ref();
        overrides.is_some_and(|it| it[name] == true)
    }
}

impl WekaContainer {
    /// The node that it is on, or is to be on.
    pub fn node(&self) -> Option<&str> {
        let placed = self.status.as_ref().map(|it| it.node_affinity.as_str());
        let wanted = self.spec.node_affinity.as_deref();
        wanted.or(placed).filter(|node| !node.is_empty())
    }
}
