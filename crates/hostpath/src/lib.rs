//! The embedded CSI driver, `stowage driver hostpath`: every feature of CSI on one node, without an array.
//!
//! A volume is a sparse file of exactly its size in the state directory, seen by pods through a loop device: formatted
//! and mounted, or raw. Data is local to its node, and the topology says so.
//!
//! - [`args`]: the command line; [`run`] is the whole driver.
//! - `id`, `usage`, `capacity`, `topology`: what callers send, parsed once.
//! - `state`: the state directory, the only memory there is.
//! - `ledger`: sums that limits are compared with.
//! - `driver`: what all services share, and how a call finds its volume.
//! - `device`: loop devices and mounts of a volume; `content`: copies of volumes, also in use.
//! - `identity`, `controller`, `group`, `node`: the services.
//! - `error`: every failure and its gRPC code.

pub mod args;
mod capacity;
mod content;
mod controller;
mod device;
mod driver;
mod error;
mod group;
mod home;
mod id;
mod identity;
mod ledger;
mod mutable;
mod node;
mod state;
mod topology;
mod usage;

mod start;

pub use args::Args;
pub use start::{StartError, run};
