//! For tests: an API server of one's own in about three seconds, and namespaces on a cluster that is up.

mod api_server;
mod cluster;
mod keeper;

pub use self::api_server::ApiServer;
pub use self::cluster::{CLUSTER_VARIABLE, KUBECONFIG_VARIABLE, Namespace, TestCluster};
