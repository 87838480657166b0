//! The driver between a real API server, a simulated array with disks and shares, and the mounts of this machine, in both
//! modes of vpsa.md.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod adoption;
mod bad_input;
mod conformance;
mod keys;
mod killed;
mod life;
mod multipath;
mod sessions;
mod topology;
mod usage;

mod calls;
mod host;
mod process;
mod rig;
mod tools;
