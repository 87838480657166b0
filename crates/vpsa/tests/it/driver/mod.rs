//! The driver between a real API server, a simulated array with disks and shares, and the mounts of this machine, in both
//! modes of vpsa.md.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod adoption;
mod bad_input;
mod conformance;
mod expansion;
mod fenced;
mod forced_off;
mod keys;
mod killed;
mod life;
mod links;
mod multipath;
mod raw;
mod read_only;
mod sessions;
mod slow;
mod stale;
mod topology;
mod usage;

mod calls;
mod host;
mod process;
mod rig;
mod tools;
