//! What can be seen of a journal.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use stowage_service::Metrics;

use super::state::State;

type Count = Gauge<u64, AtomicU64>;

/// The metrics of the journal.
pub(super) struct JournalMetrics {
    intents: Count,
    bytes: Count,
    full: Count,
    pub(super) writes: Counter,
}

impl JournalMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let journal = Self {
            intents: Count::default(),
            bytes: Count::default(),
            full: Count::default(),
            writes: Counter::default(),
        };
        metrics.register(
            "stowage_sidecar_intents",
            "Volumes that are being made",
            journal.intents.clone(),
        );
        metrics.register(
            "stowage_sidecar_journal_bytes",
            "Size of the intent journal in bytes; new claims wait when it reaches 200000",
            journal.bytes.clone(),
        );
        metrics.register(
            "stowage_sidecar_journal_full",
            "1 while claims wait for room in the intent journal",
            journal.full.clone(),
        );
        metrics.register(
            "stowage_sidecar_journal_writes",
            "Writes of the intent journal",
            journal.writes.clone(),
        );
        journal
    }

    pub(super) fn show(&self, state: &State) {
        self.intents.set(state.entries().len() as u64);
        self.bytes.set(state.bytes() as u64);
        self.full.set(u64::from(state.is_full()));
    }
}
