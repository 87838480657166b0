//! Custom resources of the cluster as Rust types. Pure data: nothing here talks to a server or a file.
//!
//! - [`driver_deployment`]: `csidriver.storage.openshift.io`, what the operator turns into workloads.
//! - [`snapshot`]: `snapshot.storage.k8s.io` and `groupsnapshot.storage.k8s.io`, the two API groups
//!   of the Kubernetes project that no crate ships types for.
//! - [`crds`]: every definition this crate knows, to be printed or installed.

pub mod driver_deployment;
pub mod snapshot;

mod crd;

pub use crd::{CrdGroup, crds};
