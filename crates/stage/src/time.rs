//! Time that passes without anybody waiting for it.

use std::time::Duration;

/// So much time passes at once, for everything in this process: timers that are due go off. Only in a runtime of one
/// thread, which is what `#[tokio::test]` has when nothing is said.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
