//! What goes wrong with an array, on purpose.
//!
//! - [`client`]: [`Control`], for tests.
//! - [`server`]: what answers it.
//! - [`trouble`]: what can happen to a request, beyond what happens to those of every array.

pub mod client;
pub mod server;
pub mod trouble;

pub use client::Control;
pub use trouble::Trouble;

pub use crate::control::ControlError;

/// Trouble for requests that fit.
pub type Fault = crate::faults::Fault<Trouble>;
