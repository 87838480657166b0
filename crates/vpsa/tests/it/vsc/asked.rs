//! Waiting for arrays to have been asked: proof that the control plane has looked since.

use std::time::{Duration, Instant};

use stowage_sim::vpsa::Array;

use crate::vsc::rig::PATIENCE;

/// How often an array was asked for something, such as `GET volumes/*`.
pub async fn times(array: &Array, kind: &str) -> u64 {
    let counters = array.control().counters().await.unwrap();
    counters.get(kind).copied().unwrap_or(0)
}

/// Returns when an array got so many requests of a kind since its start.
pub async fn reaches(array: &Array, kind: &str, wanted: u64) {
    let deadline = Instant::now() + PATIENCE;
    while times(array, kind).await < wanted {
        let counters = array.control().counters().await.unwrap();
        assert!(
            Instant::now() < deadline,
            "not asked `{kind}`: {counters:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns when an array got so many more requests of a kind.
pub async fn asked(array: &Array, kind: &str, more: u64) {
    let wanted = times(array, kind).await + more;
    reaches(array, kind, wanted).await;
}
