//! What tests of roles stand on: a driver in memory, a corner of a real cluster, and the role between them.
//!
//! | module | holds |
//! |---|---|
//! | [`rig`] | a driver of its own name in a namespace of its own |
//! | `claims` | what a [`Rig`] does with classes, claims and volumes; needs a control plane |
//! | `contents` | what a [`Rig`] does with the contents of snapshots |
//! | `node` | a node with a driver of its own |
//! | [`running`] | a role of the binary that runs in the test's process |
//! | [`proxy`] | a server of the test's own before the API server |
//! | [`wire`] | the wire to the API server, which can go silent |
//! | [`objects`] | objects made, and whatever else waited for |
//! | `time` | time that passes without anybody waiting for it |
//!
//! Only tests depend on it. It knows no role: a test says which one to run, such as
//! `rig.sidecar(stowage_sidecar::controller::run, &["--worker-threads=1"])`.

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where it fails, also in what it shares with others"
)]

mod claims;
mod contents;
mod node;
pub mod objects;
pub mod proxy;
pub mod rig;
pub mod running;
mod time;
pub mod wire;

pub use contents::{error_of, install_kinds, is_marked};
pub use node::Node;
pub use objects::{SOON, create, eventually, merge, soon, until};
pub use proxy::Proxy;
pub use rig::Rig;
pub use running::{Place, Running};
pub use time::pass;
pub use wire::Wire;
