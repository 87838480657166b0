//! What goes wrong with clusters, on purpose.
//!
//! - [`client`]: [`Control`], for tests.
//! - [`server`]: what answers it, on a port of its own, so that it works while no endpoint does.
//! - [`faults`]: what happens to requests of the REST API.
//! - [`frontends`]: the frontends of nodes: who is there, and what its stand-ins of kernel files say.

pub mod client;
pub mod faults;
pub mod frontends;
pub mod server;

pub use client::{Control, ControlError};
pub use faults::{Fault, Trouble};
