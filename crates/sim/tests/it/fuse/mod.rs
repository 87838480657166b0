//! The data plane of the simulated Weka cluster: real mounts over FUSE. Needs root and /dev/fuse.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod files;
mod hang;
mod identity;
mod permission;
mod quota;
mod rig;
mod snapshots;
