//! The moment at which a caller gives up.

use std::time::{Duration, Instant};

/// The moment at which a caller gives up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// How long there is; nothing once it is over.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
