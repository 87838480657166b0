//! Free capacity for the scheduler: the capacity role beside a driver in memory, against a real API server.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../controller/rig.rs"]
#[allow(dead_code, reason = "made for another set of tests")]
mod rig;
#[path = "../controller/sidecar.rs"]
#[allow(dead_code, reason = "made for another set of tests")]
mod sidecar;

mod owning;
mod scene;
mod telling;
