//! The one process beside a CSI driver.

pub mod args;
pub mod cluster;
pub mod driver;
pub mod events;
pub mod intent;
pub mod journal;
pub mod queue;
mod role;
mod secrets;
mod server;
