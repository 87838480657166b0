//! For tests: what of Kubernetes they need, no more.
//!
//! - [`ApiServer`]: etcd and kube-apiserver of one's own in about three seconds; it can be stopped and frozen, and
//!   gives users that may do little. Tests that do neither are lent one by the pool of the crate `testing`;
//! - [`ControlPlane`]: the same with Kubernetes' controllers and nodes that are objects only;
//! - [`TestCluster`]: a whole cluster that is up, with namespaces that go with the test;
//! - [`http_get`]: what processes answer over HTTP;
//! - [`libiscsi`]: an initiator that others wrote; [`SelinuxTools`]: what compiles and queries SELinux policies;
//! - [`Running`], [`eventually`]: a process that ends with its test, and waiting for what it does;
//! - [`isolated!`](crate::isolated): tests that mount, each in a process with mounts of its own.

mod access;
mod api_server;
mod cluster;
mod control_plane;
pub mod documented;
mod http;
pub mod isolated;
mod keeper;
mod libiscsi;
mod running;
mod selinux;

pub use self::access::Rule;
pub use self::api_server::{Address, ApiServer, Store};
pub use self::cluster::{CLUSTER_VARIABLE, KUBECONFIG_VARIABLE, Namespace, TestCluster};
pub use self::control_plane::ControlPlane;
pub use self::http::http_get;
pub use self::libiscsi::libiscsi;
pub use self::running::{Running, eventually};
pub use self::selinux::SelinuxTools;
