//! Snapshots from the user's object to the driver and back: this controller, a sidecar, and a driver in memory, on a
//! real API server.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod bad_input;
mod brought_groups;
mod classes;
mod deleting;
mod groups;
mod interchange;
mod kills;
mod older_groups;
mod permissions;
mod rivals;
mod scene;
mod standing;
mod taking;
mod vanishing;
