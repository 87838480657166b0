//! What can be seen of queues: upstream's names, and the objects that have been failing the longest.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::{Shared, Stage};

/// How many failing objects are named: enough to see what is wrong, few enough for a metrics server.
const NAMED_FAILURES: usize = 10;
/// Powers of ten from 10 µs on, as client-go has them.
const BUCKETS: [f64; 9] = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

/// The metrics of one queue.
#[derive(Debug)]
pub struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
}

impl QueueMetrics {
    pub(super) fn of(queue: &'static str, registry: &mut Registry) -> Self {
        let metrics = Self {
            adds: Counter::default(),
            retries: Counter::default(),
            waited: Histogram::new(BUCKETS),
            worked: Histogram::new(BUCKETS),
        };
        let registry = registry.sub_registry_with_label(("name".into(), queue.into()));
        registry.register("workqueue_adds", "Objects added", metrics.adds.clone());
        registry.register(
            "workqueue_retries",
            "Objects that failed and are tried again",
            metrics.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "Time an object waits for a worker",
            metrics.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Time the work on an object takes",
            metrics.worked.clone(),
        );
        metrics
    }
}

/// What is counted at the moment of asking.
pub(super) struct Snapshot(pub(super) Arc<Shared>);

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Snapshot({})", self.0.name)
    }
}

#[derive(Default)]
struct Ages {
    depth: u32,
    oldest_ready: f64,
    unfinished: f64,
    longest_running: f64,
    failing: Vec<(f64, String, String)>,
}

impl Snapshot {
    fn ages(&self) -> Ages {
        let now = Instant::now();
        let age = |since: Instant| (now - since).as_secs_f64();
        let mut ages = Ages::default();
        let state = self.0.state.lock();
        for (key, entry) in &state.entries {
            match entry.stage {
                Stage::Ready { since } => {
                    ages.depth += 1;
                    ages.oldest_ready = ages.oldest_ready.max(age(since));
                }
                Stage::Running { since, .. } => {
                    ages.unfinished += age(since);
                    ages.longest_running = ages.longest_running.max(age(since));
                }
                Stage::Waiting(_) => {}
            }
            if let (Some(since), Some(error)) = (entry.failing_since, &entry.error) {
                ages.failing
                    .push((age(since), key.to_string(), error.clone()));
            }
        }
        drop(state);
        ages.failing.sort_by(|one, other| other.0.total_cmp(&one.0));
        ages.failing.truncate(NAMED_FAILURES);
        ages
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ages = self.ages();
        let queue = [("name", self.0.name)];
        let mut gauge = |name: &str, help: &str, value: f64| {
            let value = ConstGauge::new(value);
            let mut metric = encoder.encode_descriptor(name, help, None, value.metric_type())?;
            value.encode(metric.encode_family(&queue)?)
        };
        gauge(
            "workqueue_depth",
            "Objects that wait for a worker",
            f64::from(ages.depth),
        )?;
        gauge(
            "stowage_workqueue_oldest_seconds",
            "How long the first of them has waited",
            ages.oldest_ready,
        )?;
        gauge(
            "workqueue_unfinished_work_seconds",
            "Time spent so far on objects that are being worked on",
            ages.unfinished,
        )?;
        gauge(
            "workqueue_longest_running_processor_seconds",
            "The longest of them",
            ages.longest_running,
        )?;
        for (seconds, object, error) in ages.failing {
            let value = ConstGauge::new(seconds);
            let mut metric = encoder.encode_descriptor(
                "stowage_workqueue_failing_seconds",
                "The objects that have failed for the longest time, and their last error",
                None,
                value.metric_type(),
            )?;
            let labels = [
                ("name", self.0.name),
                ("object", object.as_str()),
                ("error", error.as_str()),
            ];
            value.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
