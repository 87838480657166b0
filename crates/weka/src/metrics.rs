//! What is counted, under the names that dashboards for Weka know: `operations` are calls, `volumes` the published ones,
//! `fleet` all of them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::handle::Backing;
use fleet::Fleet;
use operations::OfOperation;
pub(crate) use operations::{Operation, UnderWay};
use volumes::Volumes;

pub(crate) mod fleet;
mod operations;
pub(crate) mod volumes;

const BUCKETS: [f64; 13] = [
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// One kind of answer of the API.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ApiLabels {
    pub(crate) cluster_guid: String,
    pub(crate) endpoint: String,
    pub(crate) method: String,
    pub(crate) url: &'static str,
    /// 0 if there was none.
    pub(crate) status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FilesystemLabels {
    filesystem_name: String,
}

/// The metrics of a process. Clones count into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    operations: [OfOperation; 8],
    /// A counter by nature; but a counter's name ends in `_total`, and this one is known without.
    api_count: Family<ApiLabels, Gauge>,
    api_seconds: Histograms<ApiLabels>,
    trash_entries: Family<FilesystemLabels, Gauge>,
    trash_removed: Family<FilesystemLabels, Counter>,
    trash_failures: Family<FilesystemLabels, Counter>,
    pub(crate) volumes: Volumes,
    pub(crate) fleet: Fleet,
}

impl Default for Metrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        let volumes = Volumes::default();
        Self {
            operations: Default::default(),
            api_count: Family::default(),
            api_seconds: Family::new_with_constructor(histogram),
            trash_entries: Family::default(),
            trash_removed: Family::default(),
            trash_failures: Family::default(),
            fleet: Fleet::new(volumes.clone()),
            volumes,
        }
    }
}

impl Metrics {
    /// Metrics of one process; a registry takes them once.
    pub fn register(registry: &mut Registry, driver_name: &str) -> Self {
        let metrics = Self::default();
        let label = ("csi_driver_name".into(), driver_name.to_owned().into());
        let registry = registry
            .sub_registry_with_prefix("weka_csi")
            .sub_registry_with_label(label);
        for operation in Operation::ALL {
            metrics.of(operation).register(registry, operation);
        }
        registry.register(
            "api_request_count",
            "Calls to Weka's API by outcome",
            metrics.api_count.clone(),
        );
        registry.register(
            "api_request_duration_seconds",
            "Time of calls to Weka's API",
            metrics.api_seconds.clone(),
        );
        registry.register(
            "trash_entries",
            "Deleted volumes whose data is not removed yet",
            metrics.trash_entries.clone(),
        );
        registry.register(
            "trash_removed",
            "Files and directories removed from the trash",
            metrics.trash_removed.clone(),
        );
        registry.register(
            "trash_failures",
            "Removals from the trash that failed and are repeated",
            metrics.trash_failures.clone(),
        );
        metrics.volumes.register(registry);
        metrics.fleet.register(registry);
        metrics
    }

    fn of(&self, operation: Operation) -> &OfOperation {
        &self.operations[operation.index()]
    }

    pub(crate) fn api_call(&self, labels: &ApiLabels, time: Duration) {
        self.api_count.get_or_create(labels).inc();
        self.api_seconds
            .get_or_create(labels)
            .observe(time.as_secs_f64());
    }

    /// A call has waited for its turn and starts.
    pub(crate) fn start_operation(
        &self,
        operation: Operation,
        backing: Option<Backing>,
        waited: Duration,
    ) -> UnderWay {
        self.of(operation).start(backing, waited)
    }

    /// What the trash of a filesystem holds.
    pub(crate) fn trash(&self, filesystem: &str, entries: usize) {
        let labels = FilesystemLabels {
            filesystem_name: filesystem.to_owned(),
        };
        let entries = i64::try_from(entries).unwrap_or(i64::MAX);
        self.trash_entries.get_or_create(&labels).set(entries);
    }

    pub(crate) fn trash_removed(&self, filesystem: &str, things: u64) {
        let filesystem_name = filesystem.to_owned();
        self.trash_removed
            .get_or_create(&FilesystemLabels { filesystem_name })
            .inc_by(things);
    }

    pub(crate) fn trash_failure(&self, filesystem: &str) {
        let filesystem_name = filesystem.to_owned();
        self.trash_failures
            .get_or_create(&FilesystemLabels { filesystem_name })
            .inc();
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn names_are_those_that_dashboards_know() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "csi.weka.io");
        metrics
            .start_operation(
                Operation::CreateVolume,
                Some(Backing::Directory),
                Duration::ZERO,
            )
            .end(true, Some(5));
        let labels = ApiLabels {
            cluster_guid: "g".to_owned(),
            endpoint: "e:1".to_owned(),
            method: "GET".to_owned(),
            url: "cluster",
            status: 200,
        };
        metrics.api_call(&labels, Duration::from_millis(3));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "weka_csi_controller_create_volume_total{csi_driver_name=\"csi.weka.io\",status=\"success\",backing_type=\"DIRECTORY\"} 1",
            "weka_csi_controller_create_volume_total_capacity_bytes{csi_driver_name=\"csi.weka.io\",status=\"success\",backing_type=\"DIRECTORY\"} 5",
            "weka_csi_controller_create_volume_duration_seconds_count",
            "weka_csi_controller_concurrency_create_volume{csi_driver_name=\"csi.weka.io\"} 0",
            "weka_csi_api_request_count{csi_driver_name=\"csi.weka.io\",cluster_guid=\"g\",endpoint=\"e:1\",method=\"GET\",url=\"cluster\",status=\"200\"} 1",
            "weka_csi_api_request_duration_seconds_bucket",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
