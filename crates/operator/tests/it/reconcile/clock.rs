//! The operator's clock, which a test puts forward instead of waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use stowage_operator::driver_deployment::Clock;

/// The present, and what a test has added to it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct TestClock {
    ahead: Arc<AtomicU64>,
}

impl TestClock {
    /// So much time passes at once.
    pub(crate) fn advance(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::SeqCst);
    }

    /// For the operator.
    pub(crate) fn reads(&self) -> Clock {
        let ahead = Arc::clone(&self.ahead);
        let passed = move || Duration::from_secs(ahead.load(Ordering::SeqCst));
        Arc::new(move || Timestamp::now() + passed())
    }
}
