//! Objects as the array spells them. Only what is used is read; the real ones hold more, and may hold less.
//!
//! Capacities are in GB, of which each is 2^30 bytes.

mod array;
mod server;
mod snapshot;
mod time;
mod volume;

pub use array::{Drive, Health, Pool, RaidGroup, VController};
pub use server::{AttachedServer, Server};
pub use snapshot::Snapshot;
pub use volume::{DataType, Volume};

#[cfg(test)]
mod tests;
