//! The intent journal on a real API server.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod intents;
mod opening;
mod outage;
mod rig;
mod sharing;
mod writing;
