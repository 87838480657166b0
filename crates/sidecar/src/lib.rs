//! The one process beside a CSI driver.

mod access;
pub mod args;
mod attach;
pub mod cluster;
pub mod driver;
pub mod intent;
pub mod queue;
mod role;
mod secrets;
mod server;
