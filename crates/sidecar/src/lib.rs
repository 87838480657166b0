//! The one sidecar process beside a CSI driver: `stowage sidecar`.
//!
//! | module | holds |
//! |---|---|
//! | [`controller`] | `stowage sidecar controller`: the leases, and the roles under them |
//! | [`node`] | `stowage sidecar node`: registration and liveness |
//! | [`role`] | which roles there are; a new one is one file and one line there |
//! | [`provision`], [`attach`], [`resize`], [`modify`], [`snapshot`], [`capacity`] | the roles |
//! | [`cluster`] | the shared watches: each kind once, whatever the number of roles |
//! | [`intent`], [`journal`] | volumes that may be half made, and where that is written down |
//! | [`driver`] | the driver behind the socket: what it is called, what it can do, when it was restarted |
//! | [`server`], [`arrival`] | what the API server can do; what it learns while we run |
//! | [`liveness`] | the HTTP port that the kubelet asks whether the driver is alive |
//! | [`mounts`] | the HTTP port that the operator asks which volumes are mounted |
//! | [`register`] | makes the driver known to the kubelet and keeps it known |
//! | [`termination`] | the last words of a process, where `kubectl describe pod` shows them |
//! | [`args`] | the flags of the roles |
//! | [`trust`] | whether an intent is reason enough to delete a volume |
//! | [`access`], [`attributes_class`], [`objects`], [`driver_call`] | small things that roles share |

mod access;
pub mod args;
mod arrival;
mod attach;
mod attributes_class;
mod capacity;
pub mod cluster;
pub mod controller;
pub mod driver;
mod driver_call;
pub mod intent;
pub mod journal;
pub mod liveness;
mod modify;
pub mod mounts;
pub mod node;
mod objects;
mod provision;
pub mod register;
mod resize;
mod role;
mod server;
mod snapshot;
pub mod termination;
mod trust;
