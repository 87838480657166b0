//! The one sidecar process beside a CSI driver: `stowage sidecar`.
//!
//! - [`driver`]: the driver behind the socket: what it is called, what it can do, when it was restarted.

pub mod driver;
