//! What goes wrong with clusters, on purpose.
//!
//! - [`client`]: [`Control`], for tests.
//! - [`server`]: what answers it, on a port of its own, so that it works while no endpoint does.
//! - [`frontends`]: the frontends of nodes: who is there, and what its stand-ins of kernel files say.

pub mod client;
pub mod frontends;
pub mod server;

pub use crate::control::ControlError;
pub use crate::faults::{self, Trouble};
pub use client::Control;

/// Trouble for requests that fit.
pub type Fault = faults::Fault<Trouble>;
