//! The cluster-wide half of snapshots: `stowage snapshot-controller`.
//!
//! Users make VolumeSnapshots and VolumeGroupSnapshots; for each there is a content, which a driver's sidecar fills.
//! This controller makes contents, binds the two, tells users what became of them, and takes both apart again. It
//! never talks to a driver. A cluster needs exactly one such controller, for all drivers; most have upstream's.
//!
//! | module | holds |
//! |---|---|
//! | [`args`], [`controller`] | the flags; start and lease |
//! | `queues` | which change is work for whom |
//! | [`rival`] | the look for another controller at the start |
//! | `request`, `content`, `others` | the kinds, reduced to what is used: single snapshots and groups alike |
//! | `cluster` | the watches |
//! | `status` | what users read, from what contents say: pure |
//! | `worker` | one attempt for one request: finds or makes its content, copies its status |
//! | `make` | a content from class, claims and volumes |
//! | `births` | contents of requests that the server was deleting just then: the only ones deleted without being asked for |
//! | `leave` | takes a request apart that is being deleted |
//! | `members`, `membership` | the single snapshots of a group: made here, and brought here |
//! | `claims`, `finish` | lets claims go; completes contents made by others |
//! | `operations` | how long snapshots take, for Prometheus |
//! | `write`, `failure` | patches; errors as they are shown |
//!
//! Names, annotations, finalizers, events and the lease are upstream's: either may take over from the other.

pub mod args;
mod births;
mod claims;
mod cluster;
mod content;
pub mod controller;
mod failure;
mod finish;
mod leave;
mod make;
mod members;
mod membership;
mod operations;
mod others;
mod queues;
mod request;
pub mod rival;
mod status;
mod worker;
mod write;

pub use args::SnapshotControllerArgs;
pub use controller::{ControllerError, run};
