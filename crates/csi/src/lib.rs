//! The CSI protocol and what every driver and the sidecar need around it.
//!
//! - [`proto`]: messages, clients and server traits, generated from `proto/`.
//! - [`deadline`]: how long a caller waits.
//! - [`endpoint`]: where a driver listens; [`flags`]: the flags that every driver has.
//! - [`server`]: serves a driver on its socket; [`layer`] is what happens around every call.
//! - [`client`]: the caller's end, which outlives restarts of the driver.
//! - [`metrics`]: what is counted, on both sides; [`waiting`] measures the machine's part of a call.
//! - [`access`]: how many may use a volume at a time.
//! - [`check`]: is a request complete and within limits; each RPC asks this first.
//! - [`locks`]: one operation per volume at a time; each RPC asks this second.
//! - [`turns`]: one at a time, for what volumes share; [`identity`]: who a driver is.
//! - [`name`]: valid names of drivers; [`sizes`]: capacity ranges and byte counts of requests.
//! - [`registration`]: how the kubelet gets to know a driver.

pub mod access;
mod call;
pub mod check;
pub mod client;
pub mod deadline;
pub mod endpoint;
pub mod flags;
pub mod identity;
pub mod layer;
pub mod locks;
pub mod metrics;
pub mod name;
pub mod proto;
pub mod registration;
pub mod server;
pub mod sizes;
pub mod turns;
pub mod waiting;
