//! The Weka CSI driver, `stowage driver weka`: volumes on Weka filesystems.
//!
//! A volume is a directory with a quota: one of an existing filesystem, or the root of a filesystem or of a writable
//! snapshot. It is made over the cluster's REST API and through a mount of the filesystem, or, in the old model and only
//! within an existing filesystem, through the mount alone. Handles, names, attributes and parameters are those of earlier
//! drivers: their volumes go on.
//!
//! - [`args`]: the command line, `config`: what it means; [`run`] is the whole driver.
//! - `handle`, `dynamic_paths`, `snapshot_id`, `name`, `parameters`, `secret`, `options`, `overrides`, `capacity`,
//!   `quota`, `version`, `procfs`, `topology`, `nfs`, `selinux`: what callers, clusters and the kernel say, parsed once. Pure.
//! - `rest`: the client of a cluster's API.
//! - `driver`: the services.
//! - [`migrate`]: gives volumes from before there were quotas their quota; a command, not a service.
//! - [`takeover`]: what becomes of an installation of WEKA's own plugin.
//! - `metrics`: what is counted; `error`: every failure and its gRPC code.

pub mod args;
mod capacity;
mod config;
mod driver;
mod dynamic_paths;
mod error;
mod handle;
mod metrics;
pub mod migrate;
mod name;
mod nfs;
mod options;
mod overrides;
mod parameters;
mod procfs;
mod quota;
mod rest;
mod secret;
mod selinux;
mod snapshot_id;
mod start;
pub mod takeover;
mod topology;
mod version;

pub use args::Args;
pub use config::FlagError;
pub use metrics::Metrics;
pub use start::{Reports, StartError, run};
