//! Calls that are counted by themselves.

use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Histograms, histogram};
use crate::handle::Backing;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    status: &'static str,
    backing_type: &'static str,
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
    CreateSnapshot,
    DeleteSnapshot,
}

impl Operation {
    pub(crate) const ALL: [Self; 8] = [
        Self::CreateVolume,
        Self::DeleteVolume,
        Self::ExpandVolume,
        Self::PublishVolume,
        Self::UnpublishVolume,
        Self::GetVolumeStats,
        Self::CreateSnapshot,
        Self::DeleteSnapshot,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::CreateVolume => "controller_create_volume",
            Self::DeleteVolume => "controller_delete_volume",
            Self::ExpandVolume => "controller_expand_volume",
            Self::PublishVolume => "node_publish_volume",
            Self::UnpublishVolume => "node_unpublish_volume",
            Self::GetVolumeStats => "node_get_volume_stats",
            Self::CreateSnapshot => "controller_create_snapshot",
            Self::DeleteSnapshot => "controller_delete_snapshot",
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
            Self::CreateSnapshot => "controller_concurrency_create_snapshot",
            Self::DeleteSnapshot => "controller_concurrency_delete_snapshot",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// What is counted of one kind of call.
#[derive(Clone, Debug)]
pub(super) struct OfOperation {
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

impl OfOperation {
    pub(super) fn register(&self, registry: &mut Registry, operation: Operation) {
        let (of, name) = (self.clone(), operation.name());
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

    /// A call has waited for its turn and starts.
    pub(super) fn start(&self, backing: Option<Backing>, waited: Duration) -> UnderWay {
        self.under_way.inc();
        self.waited.observe(waited.as_secs_f64());
        UnderWay {
            of: self.clone(),
            backing,
            started: Instant::now(),
        }
    }
}

/// A call that is being worked on.
pub(crate) struct UnderWay {
    of: OfOperation,
    /// What the volume is, where that is known.
    backing: Option<Backing>,
    started: Instant,
}

impl UnderWay {
    /// The call has ended.
    pub(crate) fn end(self, ok: bool, bytes: Option<u64>) {
        let labels = OperationLabels {
            status: if ok { "success" } else { "failure" },
            backing_type: match self.backing {
                Some(Backing::Directory) => "DIRECTORY",
                Some(Backing::Filesystem) => "FILESYSTEM",
                Some(Backing::Snapshot) => "SNAPSHOT",
                Some(Backing::Hybrid) => "HYBRID",
                None => "UNKNOWN",
            },
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
