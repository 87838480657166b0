//! The REST API of the simulated Weka cluster, over real ports.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod client;
mod endpoints;
mod faults;
mod gates;
mod persistence;
mod shapes;
