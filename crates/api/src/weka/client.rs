//! Weka clients on nodes, and the CSI driver that comes along.

mod csi;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::{CpuPolicy, UpgradeType};
use crate::driver_deployment::Unknown;
use crate::schema::{
    optional_object, optional_objects, optional_text_map, optional_texts, read_text, read_text_map,
    read_texts, text,
};
pub use csi::{ClientCsiConfig, CsiAdvanced};
pub use status::{ClientCounts, ClientCsiStatus, ClientPrinter, ClientStats, WekaClientStatus};

/// What an administrator says about clients.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["image"]))]
#[kube(
    group = "weka.weka.io",
    version = "v1alpha1",
    kind = "WekaClient",
    plural = "wekaclients",
    namespaced,
    doc = "Weka clients on all nodes that match, and the CSI driver that comes along.",
    derive = "PartialEq",
    derive = "Default",
    status = "WekaClientStatus",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.status"}"#,
    printcolumn = r#"{"name": "Target Cluster", "type": "string", "jsonPath": ".spec.targetCluster.name"}"#,
    printcolumn = r#"{"name": "Cores", "type": "integer", "jsonPath": ".spec.coresNum"}"#,
    printcolumn = r#"{"name": "Containers(A/C/D)", "type": "string", "jsonPath": ".status.printer.containers"}"#,
    printcolumn = r#"{"name": "CSI Driver", "type": "string", "jsonPath": ".status.csi.driverName"}"#,
    printcolumn = r#"{"name": "CSI Nodes", "type": "string", "jsonPath": ".status.csi.nodes"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
pub struct WekaClientSpec {
    /// The image of the client.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub image: String,
    /// The secret in the same namespace with which it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,
    /// Port of the client; 0: one of `portRange`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Port of the client's agent; 0: one of `portRange`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_port: Option<i32>,
    /// Where free ports are looked for [default: from 45000 on].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_range: Option<PortRange>,
    /// Labels of the nodes that get a client; empty: all.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Name of the secret with which clients join [default: `weka-client-` and the name of the target cluster].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weka_secret_ref: Option<String>,
    /// Network devices of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub network: Option<Value>,
    /// Where drivers of the kernel come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drivers_dist_service: Option<String>,
    /// Backends to join, `ip:port`, where there is no target cluster.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_texts")]
    pub join_ip_ports: Option<Vec<String>>,
    /// The WekaCluster to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<TargetCluster>,
    /// How a client gets its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_policy: Option<CpuPolicy>,
    /// How many cores a client has; 0: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_num: Option<i32>,
    /// Which ones, with the policy `manual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_ids: Option<Vec<i32>>,
    /// What is kept of traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub traces_configuration: Option<Value>,
    /// Keys of taints that are tolerated, with the effects `NoSchedule` and `NoExecute`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_texts"
    )]
    #[schemars(schema_with = "optional_texts")]
    pub tolerations: Option<Vec<String>>,
    /// Further tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_objects")]
    pub raw_tolerations: Option<Vec<Toleration>>,
    /// The account of client pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// MiB of memory beside what is computed; may be negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_memory: Option<i32>,
    /// Requests and limits in place of what is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub resources: Option<Value>,
    /// MiB of huge pages; 0: 1500 for each core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<i32>,
    /// MiB of them that the client leaves alone [default: 200].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages_offset: Option<i32>,
    /// How clients get another image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<UpgradePolicy>,
    /// Whether a client may get another image while something is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_hot_upgrade: Option<bool>,
    /// After which time the cluster forgets a client that is absent [default: 24h].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_remove_timeout: Option<String>,
    /// The CSI driver of these clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csi_config: Option<ClientCsiConfig>,
    /// Exceptions: `skipActiveMountsCheck`, `forceDrain`, `wekaContainerName` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_object")]
    pub overrides: Option<Value>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where free ports are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["basePort"]))]
pub struct PortRange {
    /// The first.
    #[serde(default)]
    pub base_port: i32,
    /// How many; 0: up to 65535.
    #[serde(default)]
    pub port_range: i32,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A WekaCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "namespace"]))]
pub struct TargetCluster {
    /// Its name.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub name: String,
    /// Its namespace.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub namespace: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How clients get another image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePolicy {
    /// `all-at-once` (default), `rolling`, `manual` or `all-at-once-force`.
    #[serde(default, rename = "type")]
    pub type_: UpgradeType,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl WekaClientSpec {
    /// The tolerations of client pods: each key with both effects, then those that are written out.
    pub fn all_tolerations(&self) -> Vec<Toleration> {
        let keys = self.tolerations.iter().flatten();
        let both = keys.flat_map(|key| {
            ["NoSchedule", "NoExecute"].map(|effect| Toleration {
                key: Some(key.clone()),
                operator: Some("Exists".to_owned()),
                effect: Some(effect.to_owned()),
                ..Toleration::default()
            })
        });
        both.chain(self.raw_tolerations.iter().flatten().cloned())
            .collect()
    }

    /// How many cores a client has.
    pub fn cores(&self) -> i32 {
        self.cores_num.unwrap_or_default().max(1)
    }

    /// How clients get another image.
    pub fn upgrade_type(&self) -> UpgradeType {
        let policy = self.upgrade_policy.as_ref();
        policy.map(|it| it.type_.clone()).unwrap_or_default()
    }
}
