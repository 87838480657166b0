//! The test side of this crate, against real programs: an outage that is none, or a rule that is not enforced, would
//! let other tests pass for nothing.
//!
//! - `outage`: the API server stops, freezes, comes back; nothing outlives the test
//! - `access`: users may do what their rules say
//! - `controllers`: Kubernetes binds, protects, schedules and attaches

#![allow(clippy::disallowed_methods, reason = "tests run programs")]

mod access;
mod controllers;
mod outage;

use std::time::{Duration, Instant};

/// Waits until `look` sees something; controllers need a moment.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
