//! Processes of a test, and waiting for what they do.

use std::ops::{Deref, DerefMut};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take in a test that talks to no cluster.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that does not outlive its test, however that ends: it is killed, and not asked to stop.
pub struct Running(pub Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds.
///
/// # Panics
/// If it does not within half a minute.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
