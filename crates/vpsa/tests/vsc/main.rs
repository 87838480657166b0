//! The control plane between a real API server and simulated arrays.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod arrays;
mod attachments;
mod classes;
mod nodes;
mod rig;
mod snapshots;
mod volumes;
