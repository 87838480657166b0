//! The driver as a gRPC server against the simulated array.
//!
//! Its filesystems are local directories here, through the seam of the host: what a Weka client does with them is tested
//! with the simulator's own frontend.

mod conformance;
mod crash;
mod hostile;
mod lifecycle;
mod local;
mod rig;
mod trouble;
