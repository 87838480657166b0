//! A real Kubernetes on one Debian machine, for development and tests.
//!
//! - [`cluster`]: bring a cluster up, look at it, take it down;
//! - [`testing`]: an API server of its own for one test, namespaces on a cluster;
//! - [`image`]: container images without Docker; [`registry`]: where nodes pull them from;
//! - [`machine`], [`debian`], [`kubernetes`]: what has to be there first; [`schemas`]: of versions that do not run here;
//! - [`hub`], [`control_plane`], [`node`]: the parts of a cluster;
//! - [`network`], [`pki`], [`cgroups`]: what the parts are made of;
//! - [`vpsa_sim`], [`weka_sim`]: simulated arrays to try drivers with;
//! - [`places`], [`process`], [`checksums`], [`report`]: files, processes, progress.

#![allow(
    clippy::disallowed_methods,
    reason = "a cluster is made of programs, and nothing here is async"
)]

pub mod cgroups;
pub mod checksums;
pub mod cluster;
pub mod control_plane;
pub mod debian;
pub mod error;
pub mod hub;
pub mod image;
pub mod kubernetes;
pub mod loops;
pub mod machine;
pub mod network;
pub mod node;
pub mod node_config;
pub mod pki;
pub mod places;
pub mod process;
pub mod registry;
pub mod report;
pub mod schemas;
mod stand_ins;
pub mod testing;
pub mod vpsa_sim;
pub mod weka_sim;

pub use error::{Error, Result};
