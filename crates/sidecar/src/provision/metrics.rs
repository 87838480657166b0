//! What is counted, under upstream's names.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use stowage_service::Metrics;

const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Volumes made and deleted. Clones count into the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct ProvisionMetrics {
    made: Family<Made, Counter>,
    not_made: Family<Made, Counter>,
    making: Family<Made, Histogram, fn() -> Histogram>,
    deleted: Family<Deleted, Counter>,
    not_deleted: Family<Deleted, Counter>,
    deleting: Family<Deleted, Histogram, fn() -> Histogram>,
    held: Gauge<u64, AtomicU64>,
    kept: Gauge<u64, AtomicU64>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Made {
    class: String,
    source: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Deleted {
    class: String,
}

impl ProvisionMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let own = Self {
            made: Family::default(),
            not_made: Family::default(),
            making: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            deleted: Family::default(),
            not_deleted: Family::default(),
            deleting: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            held: Gauge::default(),
            kept: Gauge::default(),
        };
        let claim = "controller_persistentvolumeclaim_provision";
        let volume = "controller_persistentvolume_delete";
        metrics.register(claim, "Volumes made, by class and source", own.made.clone());
        metrics.register(
            &format!("{claim}_failed"),
            "Attempts to make a volume that failed, by class and source",
            own.not_made.clone(),
        );
        metrics.register(
            &format!("{claim}_duration_seconds"),
            "Time to make a volume and its object, by class and source",
            own.making.clone(),
        );
        metrics.register(volume, "Volumes deleted, by class", own.deleted.clone());
        metrics.register(
            &format!("{volume}_failed"),
            "Attempts to delete a volume that failed, by class",
            own.not_deleted.clone(),
        );
        metrics.register(
            &format!("{volume}_duration_seconds"),
            "Time to delete a volume, by class",
            own.deleting.clone(),
        );
        metrics.register(
            "stowage_sidecar_intents_held",
            "Volumes left half made that wait for a person, because their intents are old or of another cluster",
            own.held.clone(),
        );
        metrics.register(
            "stowage_sidecar_volumes_kept",
            "Volumes without a claim that are kept although their reclaim policy is Delete, because nobody provisioned them or \
             their claimRef was cleared",
            own.kept.clone(),
        );
        own
    }

    pub(crate) fn made(&self, class: &str, source: &'static str, took: Option<Duration>) {
        let labels = Made {
            class: class.to_owned(),
            source,
        };
        match took {
            Some(took) => {
                self.made.get_or_create(&labels).inc();
                let making = self.making.get_or_create(&labels);
                making.observe(took.as_secs_f64());
            }
            None => {
                self.not_made.get_or_create(&labels).inc();
            }
        }
    }

    pub(crate) fn held(&self, count: usize) {
        self.held.set(count as u64);
    }

    pub(crate) fn kept(&self, count: usize) {
        self.kept.set(count as u64);
    }

    pub(crate) fn deleted(&self, class: &str, took: Option<Duration>) {
        let labels = Deleted {
            class: class.to_owned(),
        };
        match took {
            Some(took) => {
                self.deleted.get_or_create(&labels).inc();
                let deleting = self.deleting.get_or_create(&labels);
                deleting.observe(took.as_secs_f64());
            }
            None => {
                self.not_deleted.get_or_create(&labels).inc();
            }
        }
    }
}
