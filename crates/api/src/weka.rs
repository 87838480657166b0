//! `weka.weka.io/v1alpha1`: the custom resources of Weka's operator, as far as clients and their CSI driver need them.
//!
//! | kind | stands for |
//! |---|---|
//! | [`WekaClient`] | Weka clients on all nodes that match, and the CSI driver that comes along |
//! | [`WekaContainer`] | one of them, on one node |
//! | [`WekaCluster`] | a Weka cluster that clients join; somebody else takes care of it |
//!
//! Spelling, states and columns are those of Weka's operator, so that existing manifests apply unchanged. What these types
//! do not know is kept, in the cluster and in `unknown`. The schema checks types and required fields; everything else is
//! the operator's to judge, because it can say in a condition what to do.

mod client;
mod cluster;
mod container;
mod state;
#[cfg(test)]
mod tests;

pub use client::{
    ClientCounts, ClientCsiConfig, ClientCsiStatus, ClientPrinter, ClientStats, CsiAdvanced,
    PortRange, TargetCluster, UpgradePolicy, WekaClient, WekaClientSpec, WekaClientStatus,
};
pub use cluster::{ClusterCsiConfig, WekaCluster, WekaClusterSpec, WekaClusterStatus};
pub use container::{
    ContainerPrinter, ContainerStats, WekaContainer, WekaContainerSpec, WekaContainerStatus,
};
pub use state::{ClientState, ContainerMode, ContainerState, CpuPolicy, DesiredState, UpgradeType};

/// The API group.
pub const GROUP: &str = "weka.weka.io";
/// Keeps a client or a container until everything that belongs to it is gone.
pub const FINALIZER: &str = "weka.weka.io/finalizer";
/// Label: what a container, a pod or a CSI object is for.
pub const MODE_LABEL: &str = "weka.io/mode";
/// Label of containers: the client that they belong to.
pub const CLIENT_NAME_LABEL: &str = "weka.io/client-name";
/// Label of containers: the cluster that they join.
pub const TARGET_CLUSTER_LABEL: &str = "weka.io/target-cluster-name";
/// Label of everything that belongs to a CSI driver: its name.
pub const CSI_DRIVER_LABEL: &str = "weka.io/csi-driver-name";
/// Label of CSI node pods: the namespace of the container that they stand beside.
pub const CONTAINER_NAMESPACE_LABEL: &str = "weka.io/container-namespace";
/// Label of CSI node pods: the uid of the container that they stand beside.
pub const CONTAINER_UID_LABEL: &str = "weka.io/container-uid";
