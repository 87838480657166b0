//! How full the volumes are that are published on this node.
//!
//! A volume has one set of figures, however many pods use it; they go with its last pod.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What a volume's figures are kept under. What is not known is empty.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct VolumeLabels {
    pub(crate) pv_name: String,
    pub(crate) pvc_name: String,
    pub(crate) pvc_namespace: String,
    pub(crate) pvc_uid: String,
    pub(crate) storage_class_name: String,
    pub(crate) cluster_guid: String,
    pub(crate) filesystem_name: String,
    pub(crate) volume_type: String,
    pub(crate) volume_handle: String,
}

/// Figures of a volume, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) capacity: i64,
    pub(crate) used: i64,
    pub(crate) free: i64,
    /// What its PersistentVolume says.
    pub(crate) reported: Option<i64>,
}

/// The figures of all published volumes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volumes {
    capacity: Family<VolumeLabels, Gauge>,
    used: Family<VolumeLabels, Gauge>,
    free: Family<VolumeLabels, Gauge>,
    reported: Family<VolumeLabels, Gauge>,
    shown: Arc<Mutex<Shown>>,
}

#[derive(Debug, Default)]
struct Shown {
    by_target: HashMap<PathBuf, VolumeLabels>,
    departures: u64,
}

/// A moment in the coming and going of volumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Volumes {
    pub(super) fn register(&self, registry: &mut Registry) {
        let families = [
            ("capacity", "Size of a published volume", &self.capacity),
            ("used", "Used bytes of a published volume", &self.used),
            ("free", "Free bytes of a published volume", &self.free),
            (
                "pv_reported_capacity",
                "Size of a published volume, as its PersistentVolume says",
                &self.reported,
            ),
        ];
        for (name, help, family) in families {
            registry.register(format!("volume_{name}_bytes"), help, family.clone());
        }
    }

    /// To be asked before a volume is looked at whose figures are then shown.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.shown.lock().departures)
    }

    /// Shows the figures of the volume at a target, as they were found after a moment. If any volume went since, it may have
    /// been this one: then only what is shown anyway is brought up to date.
    pub(crate) fn show(
        &self,
        target: &Path,
        labels: &VolumeLabels,
        figures: Figures,
        since: Moment,
    ) {
        let mut shown = self.shown.lock();
        let known = shown.by_target.get(target);
        if known.is_none() && shown.departures != since.0 {
            return;
        }
        if known != Some(labels) {
            // More may be known from Kubernetes by now.
            let earlier = shown.by_target.insert(target.to_owned(), labels.clone());
            self.drop_unused(&shown, earlier.as_ref());
        }
        self.set(labels, figures);
    }

    /// Sets the figures of a volume.
    pub(super) fn set(&self, labels: &VolumeLabels, figures: Figures) {
        self.capacity.get_or_create(labels).set(figures.capacity);
        self.used.get_or_create(labels).set(figures.used);
        self.free.get_or_create(labels).set(figures.free);
        self.set_reported(labels, figures.reported);
    }

    /// Sets what the PersistentVolume of a volume says, if it says anything.
    pub(super) fn set_reported(&self, labels: &VolumeLabels, reported: Option<i64>) {
        if let Some(reported) = reported {
            self.reported.get_or_create(labels).set(reported);
        }
    }

    /// Takes away what was measured of a volume.
    pub(super) fn remove_measured(&self, labels: &VolumeLabels) {
        for family in [&self.capacity, &self.used, &self.free] {
            family.remove(labels);
        }
    }

    /// Takes the figures of a volume away.
    pub(super) fn remove(&self, labels: &VolumeLabels) {
        self.remove_measured(labels);
        self.reported.remove(labels);
    }

    /// A volume is not at this target any more.
    pub(crate) fn forget(&self, target: &Path) {
        let mut shown = self.shown.lock();
        shown.departures += 1;
        let gone = shown.by_target.remove(target);
        self.drop_unused(&shown, gone.as_ref());
    }

    fn drop_unused(&self, shown: &Shown, labels: Option<&VolumeLabels>) {
        let Some(labels) = labels else {
            return;
        };
        if shown.by_target.values().all(|other| other != labels) {
            self.remove(labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn labels(pv_name: &str) -> VolumeLabels {
        VolumeLabels {
            pv_name: pv_name.to_owned(),
            ..VolumeLabels::default()
        }
    }

    /// Lines of the used bytes.
    fn used(volumes: &Volumes) -> usize {
        let mut registry = Registry::default();
        volumes.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines = text.lines();
        lines
            .filter(|line| line.starts_with("volume_used_bytes{"))
            .count()
    }

    #[test]
    fn figures_go_with_the_last_pod_of_a_volume() {
        let volumes = Volumes::default();
        let show = |target, pv| {
            let now = volumes.now();
            volumes.show(Path::new(target), &labels(pv), Figures::default(), now);
        };
        show("/one", "pv-1");
        show("/two", "pv-1");
        show("/three", "pv-2");
        assert_eq!(used(&volumes), 2);
        volumes.forget(Path::new("/one"));
        assert_eq!(used(&volumes), 2, "another pod has it");
        volumes.forget(Path::new("/two"));
        volumes.forget(Path::new("/three"));
        assert_eq!(used(&volumes), 0);
    }

    #[test]
    fn more_knowledge_replaces_labels_and_adds_none() {
        let volumes = Volumes::default();
        for pv in ["", "pv-1"] {
            let now = volumes.now();
            volumes.show(Path::new("/one"), &labels(pv), Figures::default(), now);
        }
        assert_eq!(used(&volumes), 1);
    }

    #[test]
    fn figures_that_come_too_late_are_not_shown() {
        let volumes = Volumes::default();
        let before = volumes.now();
        volumes.forget(Path::new("/one"));
        volumes.show(
            Path::new("/one"),
            &labels("pv-1"),
            Figures::default(),
            before,
        );
        assert_eq!(used(&volumes), 0);
    }
}
