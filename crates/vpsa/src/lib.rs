//! The driver for Zadara's VPSA arrays.
//!
//! - [`rest`]: the client of one array.
//! - [`version`]: what runs on an array.

pub mod rest;
pub mod version;
