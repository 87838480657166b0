//! All tests of this crate that are not beside its code: one program, so that what they need is linked once.

mod bench;
mod cli;
mod cluster;
mod documented;
mod faults;
mod port;
mod sidecar;
mod sim;
mod status;
mod vpsa_killed;
mod weka_chart;
