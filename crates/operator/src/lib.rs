//! The operator: turns a description of a CSI driver into workloads and keeps them.
//!
//! | module | holds |
//! |---|---|
//! | [`cluster`] | what is known about the cluster: secrets that classes and volumes name, registered nodes |
//! | [`config`] | what an administrator sets once for all drivers |
//! | [`driver`] | the generator: from a driver that is known to be right to objects; pure, cannot fail |
//! | [`driver_deployment`] | the front door `CSIDriverDeployment`: validate, build, apply, status, cleanup |
//! | [`metrics`] | what `/metrics` says about instances |
//! | [`mounts`] | what the sidecars of nodes tell about mounts |
//! | [`served`] | which versions of kinds the server has |
//! | [`rights`] | what the operator may see |
//! | [`uninstall`] | lets go of what would wait for an operator that is gone |
//! | [`weka`] | the front door `WekaClient`: clients on nodes, and the CSI driver that comes along |
//! | [`writer`] | the only writer of children: drift, ownership, immutable fields |

mod changes;
pub mod cluster;
pub mod config;
pub mod driver;
pub mod driver_deployment;
mod gather;
pub mod metrics;
pub mod mounts;
pub mod rights;
pub mod served;
mod tolerations;
pub mod uninstall;
pub mod weka;
pub mod writer;
