//! Simulators of storage arrays, as strict as the arrays themselves.
//!
//! A simulator is a state machine over a data directory. It uses the array's own wire format, refuses what the array
//! would refuse, and has a control API for what goes wrong with arrays: slow, refused, half-done, restarted.
//!
//! - [`weka`]: a Weka cluster: REST API, control API, and a frontend that serves its filesystems over FUSE.

#![allow(
    clippy::disallowed_methods,
    reason = "a stand-in for an array, not part of the product; threads of FUSE may block"
)]

pub mod weka;
