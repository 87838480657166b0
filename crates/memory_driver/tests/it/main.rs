//! The driver in memory, over its socket: a test rig that lies is worse than none.
//!
//! - `scene`: a driver, its socket, and requests
//! - `promises`: what it refuses and what it remembers, beyond what the conformance suite asks
//! - `mishaps`: each mishap and each fault of interest is seen by the caller
//! - `restarts`: what it has outlives its socket
//! - `processes`: the program, killed and commanded

#![allow(clippy::disallowed_methods, reason = "tests run programs")]

mod mishaps;
mod processes;
mod promises;
mod restarts;
mod scene;
