//! A driver whose description is known to be right: what the generator turns into objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::Kind;
use super::template::PodTemplate;

/// Everything there is to know about a driver. Whoever makes one has checked it: the generator trusts it.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidDriver {
    /// To whom the objects belong.
    pub owner: Owner,
    /// The name under which the driver is registered.
    pub driver_name: String,
    /// Names of the objects that several others refer to.
    pub names: Names,
    /// Where the driver meets the kubelet and its sidecars.
    pub paths: Paths,
    /// Pods on nodes.
    pub node_workloads: Vec<NodeWorkload>,
    /// Pods that serve the cluster.
    pub controller: Option<Controller>,
    /// What runs beside the driver.
    pub sidecars: Sidecars,
    /// Which secrets sidecars may read.
    pub secret_access: SecretAccess,
    /// Whether the driver is asked if it is well.
    pub probe: Option<Probe>,
    /// Ports of the sidecars.
    pub ports: Ports,
    /// Secrets with which images are pulled, beside those of the templates.
    pub pull_secrets: Vec<String>,
    /// The CSIDriver object.
    pub csi_driver: CsiDriver,
    /// Classes of volumes.
    pub storage_classes: Vec<StorageClass>,
    /// Classes of snapshots.
    pub snapshot_classes: Vec<SnapshotClass>,
}

impl ValidDriver {
    /// Whether the sidecars of nodes do the controller's work.
    pub fn is_node_deployment(&self) -> bool {
        matches!(&self.sidecars, Sidecars::Builtin(builtin) if builtin.node_deployment)
    }

    /// What happens when an immutable field of this object changes.
    pub fn update_policy(&self, kind: Kind, name: &str) -> UpdatePolicy {
        let mut storage = self.storage_classes.iter().map(|class| &class.base);
        let mut snapshot = self.snapshot_classes.iter().map(|class| &class.base);
        let named = |base: &&ClassBase| base.name == name;
        let found = match (kind, &self.csi_driver) {
            (Kind::StorageClass, _) => storage.find(named).map(|base| base.update),
            (Kind::VolumeSnapshotClass, _) => snapshot.find(named).map(|base| base.update),
            (Kind::CsiDriver, CsiDriver::Wanted { update, .. }) => Some(*update),
            _ => None,
        };
        found.unwrap_or(UpdatePolicy::Report)
    }
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

/// Where the driver meets the kubelet and its sidecars.
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

/// A DaemonSet. A driver may have several, for nodes that need different pods.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeWorkload {
    /// Name of the DaemonSet, and the value of its pods' label.
    pub name: String,
    /// The driver's pod.
    pub template: PodTemplate,
    /// How pods are replaced.
    pub update: UpdateStrategy,
}

/// How node pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Node by node, at once.
    Rolling,
    /// When somebody deletes the old pod.
    OnDelete,
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
    /// Labels of the nodes where they may run, beside those the template asks for.
    pub node_selector: BTreeMap<String, String>,
}

/// What runs beside the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Sidecars {
    /// One container of ours per pod.
    Builtin(Builtin),
    /// The Kubernetes project's.
    Upstream(Upstream),
}

/// Our own sidecar.
#[derive(Clone, Debug, PartialEq)]
pub struct Builtin {
    /// Image.
    pub image: String,
    /// Whether each node's sidecar serves its node's volumes, so that there is no controller pod.
    pub node_deployment: bool,
    /// The container in controller pods.
    pub controller: Tuning,
    /// The container in node pods.
    pub node: Tuning,
}

/// The Kubernetes project's sidecars.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Those in controller pods, in order.
    pub controllers: Vec<(ControllerRole, UpstreamContainer)>,
    /// The one that tells the kubelet about the driver.
    pub registrar: UpstreamContainer,
    /// The one that asks the driver whether it is well.
    pub liveness_probe: UpstreamContainer,
}

/// One of the Kubernetes project's sidecars.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamContainer {
    /// Image.
    pub image: String,
    /// What is said about it.
    pub tuning: Tuning,
}

/// What an administrator says about one sidecar container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// Requests and limits.
    pub resources: Option<Value>,
    /// Arguments after ours.
    pub extra_args: Vec<String>,
}

/// What a sidecar does for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerRole {
    /// Makes and deletes volumes.
    Provisioner,
    /// Attaches them to nodes.
    Attacher,
    /// Grows them.
    Resizer,
    /// Takes snapshots.
    Snapshotter,
}

impl ControllerRole {
    /// Every role, in the order of containers.
    pub const ALL: [Self; 4] = [
        Self::Provisioner,
        Self::Attacher,
        Self::Resizer,
        Self::Snapshotter,
    ];
}

/// Which secrets sidecars may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretAccess {
    /// Those that classes and volumes of the driver name.
    Named,
    /// All of the cluster.
    Cluster,
}

/// How the driver is asked whether it is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Seconds between questions.
    pub period: i32,
    /// Seconds until an answer is too late.
    pub timeout: i32,
}

/// Ports of the sidecars. They differ between pods of one driver, because both may use the network of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Liveness in node pods.
    pub node_health: u16,
    /// Liveness in controller pods.
    pub controller_health: u16,
    /// Metrics of the built-in sidecar in controller pods.
    pub controller_metrics: u16,
}

impl Ports {
    /// Ports of drivers whose pods have a network of their own.
    pub const FIRST: u16 = 9808;
    /// How many ports a driver takes; one more than it uses, for what is still to come.
    pub const COUNT: u16 = 4;

    /// The ports of a driver, of which the first is given.
    pub const fn starting_at(first: u16) -> Self {
        Self {
            node_health: first,
            controller_health: first + 1,
            controller_metrics: first + 2,
        }
    }
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

/// What happens when an immutable field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatePolicy {
    /// A condition shows the difference.
    Report,
    /// The object is deleted and made again.
    Recreate,
}

/// What all classes have.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassBase {
    /// Name of the class.
    pub name: String,
    /// Labels from the template.
    pub labels: BTreeMap<String, String>,
    /// Annotations from the template.
    pub annotations: BTreeMap<String, String>,
    /// Whether it is the default; `None`: as an administrator decides.
    pub default: Option<bool>,
    /// Settings for the driver.
    pub parameters: Option<BTreeMap<String, String>>,
    /// What happens when an immutable field changes.
    pub update: UpdatePolicy,
}

/// A class of volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClass {
    /// What all classes have.
    pub base: ClassBase,
    /// Fields that are handed on as they are, checked by the server.
    pub fields: serde_json::Map<String, Value>,
}

/// A class of snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotClass {
    /// What all classes have.
    pub base: ClassBase,
    /// `Delete` or `Retain`.
    pub deletion_policy: String,
}

/// Secrets by name: what sidecars may read with [`SecretAccess::Named`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretNames {
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

impl SecretNames {
    /// Adds one.
    pub fn insert(&mut self, namespace: impl Into<String>, name: impl Into<String>) {
        self.by_namespace
            .entry(namespace.into())
            .or_default()
            .insert(name.into());
    }

    /// Namespaces, each with the names of secrets in it.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        self.by_namespace.iter()
    }
}

impl<N: Into<String>, S: Into<String>> FromIterator<(N, S)> for SecretNames {
    fn from_iter<I: IntoIterator<Item = (N, S)>>(pairs: I) -> Self {
        let mut names = Self::default();
        for (namespace, name) in pairs {
            names.insert(namespace, name);
        }
        names
    }
}
