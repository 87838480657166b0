//! Waiting for arrays to have been asked: proof that the control plane has looked since.

use std::time::{Duration, Instant};

use stowage_sim::vpsa::Array;

use crate::rig::PATIENCE;

/// Returns when an array got so many more requests of a kind, such as `GET volumes/*`.
pub async fn asked(array: &Array, kind: &str, times: u64) {
    let count = async || {
        let counters = array.control().counters().await.unwrap();
        (counters.get(kind).copied().unwrap_or(0), counters)
    };
    let wanted = count().await.0 + times;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (times, counters) = count().await;
        if times >= wanted {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not asked `{kind}`: {counters:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
