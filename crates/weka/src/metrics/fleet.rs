//! What is known of all volumes of the driver, published or not. A volume has the same figures here as on the nodes that
//! publish it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::histogram;
use super::volumes::{Figures, VolumeLabels, Volumes};
use crate::driver::inventory::State;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabels {
    pv_name: String,
    volume_handle: String,
    status: &'static str,
}

/// The figures of all volumes.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    volumes: Volumes,
    status: Family<StatusLabels, Gauge>,
    health: Family<VolumeLabels, Gauge>,
    without_quota: Gauge,
    filled: Counter,
    not_filled: Counter,
    monitored: Gauge,
    seconds: Histogram,
    shown: Arc<Mutex<HashMap<String, (VolumeLabels, StatusLabels)>>>,
}

impl Fleet {
    pub(super) fn new(volumes: Volumes) -> Self {
        Self {
            volumes,
            status: Family::default(),
            health: Family::default(),
            without_quota: Gauge::default(),
            filled: Counter::default(),
            not_filled: Counter::default(),
            monitored: Gauge::default(),
            seconds: histogram(),
            shown: Arc::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let fleet = self.clone();
        registry.register(
            "volume_quota_status",
            "1 for the state of a volume's quota: ACTIVE, ADDING, ERROR, NONE, MISSING (the volume itself) or UNKNOWN",
            fleet.status,
        );
        registry.register(
            "volume_health_status",
            "1 for a volume that is as it should be, 0 for one that is missing or whose quota is not enforced; none for one that could not be looked at",
            fleet.health,
        );
        registry.register(
            "volumes_without_quota",
            "Volumes whose capacity is not enforced",
            fleet.without_quota,
        );
        registry.register("quotas_created", "Quotas that volumes lacked", fleet.filled);
        registry.register(
            "quotas_not_created",
            "Quotas that volumes lack and the cluster refused",
            fleet.not_filled,
        );
        registry.register(
            "metricsserver_monitored_persistent_volumes_gauge",
            "Volumes that are read from their clusters",
            fleet.monitored,
        );
        registry.register(
            "metricsserver_periodic_fetch_metrics_duration_seconds",
            "Time to read all volumes",
            fleet.seconds,
        );
    }

    /// All volumes were read.
    pub(crate) fn swept(&self, volumes: usize, seconds: f64) {
        self.monitored
            .set(i64::try_from(volumes).unwrap_or(i64::MAX));
        self.seconds.observe(seconds);
    }

    /// Shows nothing any more.
    pub(crate) fn clear(&self) {
        self.show(std::iter::empty());
        self.monitored.set(0);
    }

    /// A volume got a quota.
    pub(crate) fn filled(&self) {
        self.filled.inc();
    }

    /// A volume got none.
    pub(crate) fn not_filled(&self) {
        self.not_filled.inc();
    }

    /// Shows these volumes: what they are kept under, their size in Kubernetes, and how they are. Others go.
    pub(crate) fn show<'a>(
        &self,
        volumes: impl Iterator<Item = (VolumeLabels, Option<u64>, &'a State)>,
    ) {
        let mut shown = self.shown.lock();
        let mut earlier = std::mem::take(&mut *shown);
        let mut without_quota = 0;
        for (labels, reported, state) in volumes {
            let status = StatusLabels {
                pv_name: labels.pv_name.clone(),
                volume_handle: labels.volume_handle.clone(),
                status: state.word(),
            };
            if let Some((old, old_status)) = earlier.remove(&labels.pv_name) {
                self.forget(
                    (old != labels).then_some(&old),
                    (old_status != status).then_some(&old_status),
                );
            }
            without_quota += i64::from(matches!(state, State::Unlimited { .. }));
            self.status.get_or_create(&status).set(1);
            match state.is_healthy() {
                Some(is_healthy) => {
                    self.health.get_or_create(&labels).set(is_healthy.into());
                }
                None => {
                    self.health.remove(&labels);
                }
            }
            match figures(state) {
                Some(figures) => self.volumes.set(&labels, figures),
                None => self.volumes.remove_measured(&labels),
            }
            self.volumes.set_reported(&labels, reported.map(signed));
            shown.insert(labels.pv_name.clone(), (labels, status));
        }
        for (labels, status) in earlier.values() {
            self.forget(Some(labels), Some(status));
        }
        self.without_quota.set(without_quota);
    }

    fn forget(&self, labels: Option<&VolumeLabels>, status: Option<&StatusLabels>) {
        if let Some(labels) = labels {
            self.volumes.remove(labels);
            self.health.remove(labels);
        }
        if let Some(status) = status {
            self.status.remove(status);
        }
    }
}

/// What was measured; nothing is made up where nothing was.
fn figures(state: &State) -> Option<Figures> {
    let State::Limited { bytes, used, .. } = state else {
        return None;
    };
    Some(Figures {
        capacity: signed(*bytes),
        used: signed(*used),
        free: signed(bytes.saturating_sub(*used)),
        reported: None,
    })
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::rest::wire::QuotaStatus;

    #[test]
    fn volumes_that_go_take_their_figures_along() {
        let fleet = Fleet::new(Volumes::default());
        let mut registry = Registry::default();
        fleet.register(&mut registry);
        fleet.volumes.register(&mut registry);
        let lines = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("volume_"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let labels = |name: &str| VolumeLabels {
            pv_name: name.to_owned(),
            ..VolumeLabels::default()
        };
        let limited = State::Limited {
            bytes: 10,
            used: 4,
            status: QuotaStatus::Active,
        };
        let none = State::Unlimited { inode: None };
        fleet.show([(labels("a"), Some(9), &limited), (labels("b"), None, &none)].into_iter());
        let text = lines().join("\n");
        assert!(text.contains("volume_free_bytes{pv_name=\"a\""), "{text}");
        assert!(!text.contains("volume_used_bytes{pv_name=\"b\""), "{text}");
        assert_eq!(text.matches("volume_health_status{").count(), 2, "{text}");
        assert!(
            text.contains("status=\"ACTIVE\"} 1") && text.contains("status=\"NONE\"} 1"),
            "{text}"
        );
        assert_eq!(fleet.without_quota.get(), 1);
        fleet.show([(labels("b"), None, &limited)].into_iter());
        let text = lines().join("\n");
        assert!(!text.contains("\"a\"") && !text.contains("NONE"), "{text}");
        fleet.show(std::iter::empty());
        assert_eq!(lines(), Vec::<String>::new());
    }
}
