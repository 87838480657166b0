//! Volumes grow: the resize role beside a driver in memory, against a real API server and its controllers. There is
//! no kubelet: a test plays it by writing the claim's status.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod cost;
mod crash;
mod failing;
mod gate;
mod growing;
mod interchange;
mod scene;
