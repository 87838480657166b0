//! Simulated arrays as processes: killed, started again, used through the stand-ins for a host's tools. Needs root, /dev/fuse and loop
//! devices.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod vpsa;
mod weka;
