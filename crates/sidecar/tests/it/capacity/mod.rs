//! Free capacity for the scheduler: the capacity role beside a driver in memory, against a real API server.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod owning;
mod publishing;
mod scene;
