//! The node's sidecar over real sockets, between a driver and a kubelet made for the test.
//!
//! - `driver`: a driver that does as it is told, and dies like a process; what all tests share
//! - `kubelet`: the kubelet's questions, and a node's sidecar to put them to
//! - `acquaintance`: getting to know a driver and following its restarts
//! - `registration`: what the kubelet sees through restarts, removals and refusals
//! - `liveness`: what the driver's liveness probe sees
//! - `mounts`: what the operator is told about mounts

#![allow(clippy::disallowed_methods, reason = "a test may wait")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod acquaintance;
mod driver;
mod kubelet;
mod liveness;
mod mounts;
mod registration;
