//! What the operator reports about an instance.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator did and what it observes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CSIDriverDeploymentStatus {
    /// The last generation that was put into effect without an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last generation whose workloads were written although something else went wrong; absent where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads_generation: Option<i64>,
    /// All objects that were created for this instance; the DaemonSet first, then the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<Child>>,
    /// What the operator does with the instance: `Managed`, `Unmanaged` or, while it cleans up, `Removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `Available`, `SyncSuccessful` and `Progressing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<DriverCondition>>,
    /// Ready nodes of desired nodes: `12/15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// The most important thing to know, for the table that `kubectl get` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The driver that the objects were last created for. Of two instances that name one driver the one that runs it
    /// keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_name: Option<String>,
    /// First of the ports that are this driver's alone, where its pods use the network of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_port: Option<i32>,
    /// How far an update by `Draining` is; absent where none is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainStatus>,
}

/// An update that empties nodes before it replaces their driver pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// Nodes with the current driver pod of all nodes: `3/15`.
    pub progress: String,
    /// Nodes that are being emptied, or that wait for their new driver pod. A node is listed before it is touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<DrainingNode>,
    /// Why no further node is begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<DrainStop>,
}

/// A node that is being emptied, or that waits for its new driver pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainingNode {
    /// Its name.
    pub name: String,
    /// When it was begun with.
    pub since: Time,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Since when nothing is seen to use the driver there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_since: Option<Time>,
    /// Since when it is without its old driver pod: the new one may take as long as it may take to empty the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_since: Option<Time>,
    /// How many volumes are still mounted; `unverified` and why, where nobody on the node can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<String>,
}

/// Why an update has stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStop {
    /// The node that failed.
    pub node: String,
    /// What it waited for.
    pub reason: String,
    /// The generation of the instance: another one makes the update go on.
    pub generation: i64,
}

/// One object that was created for an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// API group; absent for the core group.
    // Not an empty text: Kubernetes 1.20 takes one for null, which a required field must not be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind: the name of this field is older than its use.
    pub resource: String,
    /// Namespace; absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The generation that the operator wrote last; 0 for kinds that have none.
    pub last_generation: i64,
    /// The uid, by which the object is recognised even when its labels were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Reason of a condition: volumes of the driver are in the way of removing it, until somebody does something about them.
pub const IN_USE: &str = "InUse";

/// One fact about an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// When the status changed last. Objects from 2018 may lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Reason, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reason, in sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the instance that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    // No doc comments: schemars would turn a commented variant into a `oneOf` branch.
    #[allow(missing_docs)]
    True,
    #[allow(missing_docs)]
    False,
    #[allow(missing_docs)]
    Unknown,
}
