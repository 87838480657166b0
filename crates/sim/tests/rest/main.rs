//! The REST API of the simulated Weka cluster, over real ports.

mod client;
mod endpoints;
mod faults;
mod gates;
mod persistence;
mod shapes;
