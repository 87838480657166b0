//! The control plane between a real API server and simulated arrays.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod arrays;
mod asked;
mod attachments;
mod classes;
mod nodes;
mod rig;
mod rights;
mod snapshots;
mod volumes;
