//! The driver for Zadara's VPSA arrays.
//!
//! - [`rest`]: the client of one array.
//! - [`version`]: what runs on an array.
//! - [`vsc`]: the control plane: custom resources and arrays in step.

pub mod rest;
pub mod version;
pub mod vsc;
