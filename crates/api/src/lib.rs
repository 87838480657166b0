//! What all processes agree on: custom resources as Rust types, names, quantities, pauses, the text of errors. Nothing
//! here talks to a server or a file.
//!
//! - [`driver_deployment`]: `csidriver.storage.openshift.io`, what the operator turns into workloads.
//! - [`snapshot`]: `snapshot.storage.k8s.io` and `groupsnapshot.storage.k8s.io`, the two API groups
//!   of the Kubernetes project that no crate ships types for.
//! - [`vpsa`]: `storage.zadara.com`, what the VPSA driver keeps about arrays and volumes.
//! - [`weka`]: `weka.weka.io`, Weka clients on nodes and their CSI driver.
//! - [`intents`]: what a sidecar is about to make, as far as others may read it.
//! - [`mounts`]: what a node's sidecar tells the operator about mounts.
//! - [`quantity`]: sizes as people and manifests write them.
//! - [`backoff`]: pauses between attempts.
//! - [`causes`]: errors with their causes, in one line.
//! - [`termination`]: the last words of a container, for people and for programs.
//! - [`crds`]: every definition this crate knows, to be printed or installed.

pub mod backoff;
pub mod causes;
pub mod driver_deployment;
pub mod intents;
pub mod mounts;
pub mod quantity;
pub mod snapshot;
pub mod termination;
pub mod vpsa;
pub mod weka;

mod crd;
mod schema;
mod words;

pub use crd::{CrdGroup, VERSION_ANNOTATION, crds};
