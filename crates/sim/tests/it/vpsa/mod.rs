//! The simulated VPSA: its REST API over real ports, its disks and shares with real logins. Needs root.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod disks;
mod initiator;
mod libiscsi;
mod multipath;
mod node;
mod rig;
mod shares;
