//! The one sidecar process beside a CSI driver: `stowage sidecar`.
//!
//! - [`driver`]: the driver behind the socket: what it is called, what it can do, when it was restarted.
//! - [`liveness`]: the HTTP port that the kubelet asks whether the driver is alive.
//! - [`register`]: makes the driver known to the kubelet and keeps it known.
//! - [`node`]: `stowage sidecar node`: registration and liveness.
//! - [`termination`]: the last words of a process, where `kubectl describe pod` shows them.

pub mod driver;
pub mod liveness;
pub mod node;
pub mod register;
pub mod termination;
