//! What runs beside the driver.

use serde_json::Value;

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
    /// The one that registers the driver with the kubelet.
    pub registrar: UpstreamContainer,
    /// The one that answers the liveness probe of the driver.
    pub liveness_probe: UpstreamContainer,
}

/// One of the Kubernetes project's sidecars.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamContainer {
    /// Image.
    pub image: String,
    /// Its settings.
    pub tuning: Tuning,
}

/// Settings of one sidecar container.
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

/// The liveness probe of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Seconds between probes.
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
    /// What is mounted, of the built-in sidecar in node pods.
    pub node_mounts: u16,
}

impl Ports {
    /// Ports of drivers whose pods have a network of their own.
    pub const FIRST: u16 = 9808;
    /// How many ports a driver takes.
    pub const COUNT: u16 = 4;

    /// The ports of a driver, of which the first is given.
    pub const fn starting_at(first: u16) -> Self {
        Self {
            node_health: first,
            controller_health: first + 1,
            controller_metrics: first + 2,
            node_mounts: first + 3,
        }
    }
}
