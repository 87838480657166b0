//! The control plane between a real API server and simulated arrays.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod access;
mod adopted;
mod arrays;
mod asked;
mod attachments;
mod choices;
mod classes;
mod fences;
mod health;
mod identity;
mod imports;
mod nodes;
mod removal;
mod rig;
mod rights;
mod room;
mod snapshots;
mod unanswered;
mod volumes;
