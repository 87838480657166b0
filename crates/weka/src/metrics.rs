//! What is counted, under the names that dashboards for Weka know.

use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

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
struct OperationLabels {
    status: &'static str,
    backing_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FilesystemLabels {
    filesystem_name: String,
}

/// The size of a published volume.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct VolumeLabels {
    pub(crate) filesystem_name: String,
    pub(crate) volume_type: &'static str,
    pub(crate) volume_handle: String,
}

/// Calls that are counted by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    CreateVolume,
    DeleteVolume,
    ExpandVolume,
    PublishVolume,
    UnpublishVolume,
    GetVolumeStats,
}

impl Operation {
    pub(crate) const ALL: [Self; 6] = [
        Self::CreateVolume,
        Self::DeleteVolume,
        Self::ExpandVolume,
        Self::PublishVolume,
        Self::UnpublishVolume,
        Self::GetVolumeStats,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::CreateVolume => "controller_create_volume",
            Self::DeleteVolume => "controller_delete_volume",
            Self::ExpandVolume => "controller_expand_volume",
            Self::PublishVolume => "node_publish_volume",
            Self::UnpublishVolume => "node_unpublish_volume",
            Self::GetVolumeStats => "node_get_volume_stats",
        }
    }

    fn concurrency_name(self) -> &'static str {
        match self {
            Self::CreateVolume => "controller_concurrency_create_volume",
            Self::DeleteVolume => "controller_concurrency_delete_volume",
            Self::ExpandVolume => "controller_concurrency_expand_volume",
            Self::PublishVolume => "node_concurrency_node_publish_volume",
            Self::UnpublishVolume => "node_concurrency_node_unpublish_volume",
            Self::GetVolumeStats => "node_concurrency_node_get_volume_stats",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Debug)]
struct OfOperation {
    count: Family<OperationLabels, Counter>,
    /// Counts up; a counter's name would end in `_total`.
    bytes: Family<OperationLabels, Gauge>,
    seconds: Histograms<OperationLabels>,
    under_way: Gauge,
    waited: Histogram,
}

impl Default for OfOperation {
    fn default() -> Self {
        Self {
            count: Family::default(),
            bytes: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            under_way: Gauge::default(),
            waited: histogram(),
        }
    }
}

/// The metrics of a process. Clones count into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    operations: [OfOperation; 6],
    /// A counter by nature; but a counter's name ends in `_total`, and this one is known without.
    api_count: Family<ApiLabels, Gauge>,
    api_seconds: Histograms<ApiLabels>,
    trash_entries: Family<FilesystemLabels, Gauge>,
    trash_removed: Family<FilesystemLabels, Counter>,
    trash_failures: Family<FilesystemLabels, Counter>,
    volume_capacity: Family<VolumeLabels, Gauge>,
    volume_used: Family<VolumeLabels, Gauge>,
    volume_free: Family<VolumeLabels, Gauge>,
}

impl Default for Metrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self {
            operations: Default::default(),
            api_count: Family::default(),
            api_seconds: Family::new_with_constructor(histogram),
            trash_entries: Family::default(),
            trash_removed: Family::default(),
            trash_failures: Family::default(),
            volume_capacity: Family::default(),
            volume_used: Family::default(),
            volume_free: Family::default(),
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
            let (of, name) = (metrics.of(operation).clone(), operation.name());
            registry.register(name, "Calls by outcome", of.count);
            registry.register(
                format!("{name}_duration_seconds"),
                "Time of calls by outcome",
                of.seconds,
            );
            registry.register(
                format!("{name}_total_capacity_bytes"),
                "Bytes of the volumes of calls",
                of.bytes,
            );
            let name = operation.concurrency_name();
            registry.register(name, "Calls that are being worked on", of.under_way);
            registry.register(
                format!("{name}_wait_duration_seconds"),
                "Time that calls waited for their turn",
                of.waited,
            );
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
        registry.register(
            "volume_capacity_bytes",
            "Size of a published volume",
            metrics.volume_capacity.clone(),
        );
        registry.register(
            "volume_used_bytes",
            "Used bytes of a published volume",
            metrics.volume_used.clone(),
        );
        registry.register(
            "volume_free_bytes",
            "Free bytes of a published volume",
            metrics.volume_free.clone(),
        );
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

    /// A call has waited for its turn and begins.
    pub(crate) fn begin(&self, operation: Operation, waited: Duration) -> UnderWay {
        let of = self.of(operation);
        of.under_way.inc();
        of.waited.observe(waited.as_secs_f64());
        UnderWay {
            of: of.clone(),
            started: Instant::now(),
        }
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

    /// How full a volume is.
    pub(crate) fn volume(&self, labels: &VolumeLabels, capacity: i64, used: i64, free: i64) {
        self.volume_capacity.get_or_create(labels).set(capacity);
        self.volume_used.get_or_create(labels).set(used);
        self.volume_free.get_or_create(labels).set(free);
    }

    /// A volume is not published here any more.
    pub(crate) fn forget_volume(&self, labels: &VolumeLabels) {
        self.volume_capacity.remove(labels);
        self.volume_used.remove(labels);
        self.volume_free.remove(labels);
    }
}

/// A call that is being worked on.
pub(crate) struct UnderWay {
    of: OfOperation,
    started: Instant,
}

impl UnderWay {
    /// The call has ended.
    pub(crate) fn end(self, ok: bool, bytes: Option<u64>) {
        let labels = OperationLabels {
            status: if ok { "success" } else { "failure" },
            backing_type: "DIRECTORY",
        };
        self.of.count.get_or_create(&labels).inc();
        self.of
            .seconds
            .get_or_create(&labels)
            .observe(self.started.elapsed().as_secs_f64());
        if let Some(bytes) = bytes {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.of.bytes.get_or_create(&labels).inc_by(bytes);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.of.under_way.dec();
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
            .begin(Operation::CreateVolume, Duration::ZERO)
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
