//! The driver for Zadara's VPSA arrays.
//!
//! - `args`, `keys`, `start`: from the flags to a driver that serves.
//! - [`rest`]: the client of one array.
//! - [`version`]: what runs on an array.
//! - [`driver`]: the CSI services.
//! - [`vsc`]: the control plane: custom resources and arrays in step.

mod args;
pub mod driver;
mod keys;
pub mod rest;
mod start;
pub mod version;
pub mod vsc;

pub use args::Args;
pub use start::{StartError, run};
