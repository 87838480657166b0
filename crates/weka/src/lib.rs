//! The Weka CSI driver, `stowage driver weka`: directories of Weka filesystems as volumes.
//!
//! A volume is a directory with a quota. It is made over the cluster's REST API and through a mount of the filesystem,
//! or, in the old model, through the mount alone. Handles, names, attributes and parameters are those of earlier drivers:
//! their volumes go on.
//!
//! - [`args`]: the command line, `config`: what it means; [`run`] is the whole driver.
//! - `handle`, `name`, `parameters`, `secret`, `options`, `overrides`, `capacity`, `quota`, `version`, `procfs`, `topology`:
//!   what callers, clusters and the kernel say, parsed once. Pure.
//! - `rest`: the client of a cluster's API.
//! - `driver`: the services.
//! - `metrics`: what is counted; `error`: every failure and its gRPC code.

pub mod args;
mod capacity;
mod config;
mod driver;
mod error;
mod handle;
mod metrics;
mod name;
mod options;
mod overrides;
mod parameters;
mod procfs;
mod quota;
mod rest;
mod secret;
mod start;
mod topology;
mod version;

pub use args::Args;
pub use config::FlagError;
pub use metrics::Metrics;
pub use start::{Reports, StartError, run};
