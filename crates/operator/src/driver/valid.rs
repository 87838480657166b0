//! A driver whose description is known to be right: what the generator turns into objects.

mod additions;
mod classes;
mod sidecars;
mod updates;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::additions::{ExtraRules, Metrics, Monitor, RestartOn, ScopedRules};
pub use self::classes::{
    ClassBase, Classes, SecretNames, SnapshotClass, StorageClass, UpdatePolicy,
};
pub use self::sidecars::{
    Builtin, ControllerRole, Ports, Probe, SecretAccess, Sidecars, Tuning, Upstream,
    UpstreamContainer,
};
pub use self::updates::{DrainRules, Limit, UpdateStrategy};
use super::object::Kind;
use super::template::PodTemplate;

/// Everything there is to know about a driver. Whoever makes one has checked it: the generator trusts it.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidDriver {
    /// The instance that the objects belong to.
    pub owner: Owner,
    /// The name under which the driver is registered.
    pub driver_name: String,
    /// Names of the objects that several others refer to.
    pub names: Names,
    /// Paths that the driver shares with the kubelet and its sidecars.
    pub paths: Paths,
    /// Pods on nodes.
    pub node_workloads: Vec<NodeWorkload>,
    /// How a node is emptied before its pod is replaced, if it is.
    pub drain: Option<DrainRules>,
    /// Key of the taint with which nodes register and which they lose when they have the driver, if there is one.
    pub startup_taint: Option<String>,
    /// Pods that serve the cluster.
    pub controller: Option<Controller>,
    /// What runs beside the driver.
    pub sidecars: Sidecars,
    /// How much they log; `None`: as they do by themselves.
    pub log_level: Option<u8>,
    /// Which secrets sidecars may read.
    pub secret_access: SecretAccess,
    /// The liveness probe of the driver.
    pub probe: Option<Probe>,
    /// Ports of the sidecars.
    pub ports: Ports,
    /// Secrets with which images are pulled, beside those of the templates.
    pub pull_secrets: Vec<String>,
    /// Secrets that the driver reads as files.
    pub driver_secrets: Vec<DriverSecret>,
    /// The CSIDriver object.
    pub csi_driver: CsiDriver,
    /// Classes that users choose from.
    pub classes: Classes,
    /// Rules beside those that sidecars need.
    pub extra_rules: ExtraRules,
    /// What pods are replaced for, beside their template.
    pub restart_on: RestartOn,
    /// How metrics are found.
    pub metrics: Metrics,
}

impl ValidDriver {
    /// Whether the sidecars of nodes do the controller's work.
    pub fn is_node_deployment(&self) -> bool {
        matches!(&self.sidecars, Sidecars::Builtin(builtin) if builtin.node_deployment)
    }

    /// How many node pods may be missing at a time while they are replaced.
    pub fn limit(&self) -> Limit {
        let rolling = self.node_workloads.iter().find_map(|it| match it.shape {
            NodeShape::DaemonSet(UpdateStrategy::Rolling(limit)) => limit,
            _ => None,
        });
        let draining = self.drain.map(|rules| rules.limit);
        draining.or(rolling).unwrap_or(Limit::Nodes(1))
    }

    /// What happens when an immutable field of this object changes.
    pub fn update_policy(&self, kind: Kind, name: &str) -> UpdatePolicy {
        let found = match (kind, &self.csi_driver) {
            (Kind::CsiDriver, CsiDriver::Wanted { update, .. }) => Some(*update),
            _ => self.classes.named(kind, name).map(|base| base.update),
        };
        found.unwrap_or(UpdatePolicy::Report)
    }
}

/// A secret that the driver reads as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverSecret {
    /// Its name.
    pub name: String,
    /// Where its files are in the driver's container.
    pub path: String,
    /// Whether pods start without it.
    pub is_optional: bool,
}

/// The instance that a driver's objects belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its namespace, which is that of the pods too.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Names of the objects that several others refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Account of pods whose sidecars talk to the API server.
    pub controller_account: String,
    /// Account of node pods, whose sidecars do not. It has no rights.
    pub node_account: String,
    /// Role and binding in the driver's own namespace.
    pub role: String,
    /// ClusterRole and its binding, and roles in the namespaces of secrets.
    pub cluster_role: String,
}

/// Paths that the driver shares with the kubelet and its sidecars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The kubelet's directory.
    pub kubelet_root: String,
    /// Directory of the socket inside the driver's container.
    pub socket_directory: String,
    /// File name of the socket.
    pub socket_file: String,
    /// Directory of the socket on the node.
    pub plugin_directory: String,
}

impl Paths {
    /// The socket as the kubelet sees it.
    pub fn socket_on_node(&self) -> String {
        format!("{}/{}", self.plugin_directory, self.socket_file)
    }

    /// The socket as a sidecar sees it.
    pub fn socket_in_sidecar(&self) -> String {
        format!("/csi/{}", self.socket_file)
    }
}

/// Pods on nodes. A driver may have several kinds of them, for nodes that need different pods.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeWorkload {
    /// Name of the DaemonSet, and the value of its pods' label.
    pub name: String,
    /// The driver's pod.
    pub template: PodTemplate,
    /// What makes the pods.
    pub shape: NodeShape,
    /// Where they may run.
    pub placement: Placement,
}

/// Where pods may run, beside what their template says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Labels of nodes. A label that the template names, too, is the template's.
    pub node_selector: BTreeMap<String, String>,
    /// Labels of nodes where they do not run, because others do.
    pub elsewhere: Vec<(String, String)>,
    /// Taints of nodes that keep no pod away.
    pub tolerations: Vec<Value>,
}

/// What makes pods on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeShape {
    /// A DaemonSet.
    DaemonSet(UpdateStrategy),
    /// The operator itself: whoever knows the nodes asks for each pod with [`pod_on_node`](super::pod_on_node).
    PodPerNode,
}

/// A Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Name of the Deployment, and the value of its pods' label.
    pub name: String,
    /// The driver's pod.
    pub template: PodTemplate,
    /// How many pods.
    pub replicas: u16,
    /// Where they may run.
    pub placement: Placement,
}

/// Whether there is a CSIDriver object.
#[derive(Clone, Debug, PartialEq)]
pub enum CsiDriver {
    /// With this spec.
    Wanted {
        /// Its spec.
        spec: Value,
        /// What happens when an immutable field changes.
        update: UpdatePolicy,
    },
    /// No object can have the name of this driver.
    NameUnfit {
        /// Why, in a sentence.
        reason: String,
    },
}
