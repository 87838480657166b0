//! The driver between a real API server, a simulated array with disks and shares, and the mounts of this machine.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod adoption;
mod conformance;
mod life;

mod calls;
mod host;
mod rig;
mod tools;
