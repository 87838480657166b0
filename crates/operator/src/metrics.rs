//! Metrics of the operator.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use stowage_api::driver_deployment::{CSIDriverDeployment, CSIDriverDeploymentStatus};
use stowage_kubernetes::rights::Right;
use stowage_service::Metrics;

type Labels<const N: usize> = [(&'static str, String); N];

/// Seconds; a sync of a driver takes some dozen requests.
const BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// The metrics. Clones share them.
#[derive(Clone)]
pub struct OperatorMetrics {
    reconciles: Family<Labels<1>, Counter>,
    duration: Histogram,
    drivers: Family<Labels<2>, Gauge>,
    nodes: Family<Labels<4>, Gauge>,
    missing_rights: Family<Labels<3>, Gauge>,
    /// What is counted for each instance, to be taken back when it changes or goes.
    counted: Arc<Mutex<HashMap<String, Counted>>>,
}

#[derive(Default)]
struct Counted {
    conditions: Vec<Labels<2>>,
    nodes: Vec<Labels<4>>,
}

impl OperatorMetrics {
    /// Registers them.
    pub fn register(metrics: &Metrics) -> Self {
        let operator = Self {
            reconciles: Family::default(),
            duration: Histogram::new(BUCKETS),
            drivers: Family::default(),
            nodes: Family::default(),
            missing_rights: Family::default(),
            counted: Arc::default(),
        };
        metrics.register(
            "stowage_operator_reconciles",
            "Reconciles of instances, by result",
            operator.reconciles.clone(),
        );
        metrics.register(
            "stowage_operator_reconcile_duration_seconds",
            "How long reconciles take",
            operator.duration.clone(),
        );
        metrics.register(
            "stowage_operator_drivers",
            "Instances, by condition and its status",
            operator.drivers.clone(),
        );
        metrics.register(
            "stowage_operator_nodes",
            "Nodes of a driver, by state: ready of desired",
            operator.nodes.clone(),
        );
        metrics.register(
            "stowage_operator_missing_rights",
            "Rights to list or watch something that the operator lacks: 1 for each",
            operator.missing_rights.clone(),
        );
        operator
    }

    /// Shows which rights are missing.
    pub(crate) fn missing_rights(&self, missing: &[Right]) {
        self.missing_rights.clear();
        for right in missing {
            let labels = [
                ("group", right.group.to_owned()),
                ("resource", right.resource.to_owned()),
                ("verb", right.verb.to_owned()),
            ];
            self.missing_rights.get_or_create(&labels).set(1);
        }
    }

    /// Counts a reconcile.
    pub(crate) fn reconciled(&self, took: Duration, ok: bool) {
        let result = if ok { "ok" } else { "error" };
        self.reconciles
            .get_or_create(&[("result", result.to_owned())])
            .inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Counts what an instance looks like now: its conditions, and where they were looked at its ready and desired
    /// nodes.
    pub(crate) fn observed(
        &self,
        instance: &CSIDriverDeployment,
        status: &CSIDriverDeploymentStatus,
        nodes: Option<(i64, i64)>,
    ) {
        let uid = instance.uid().unwrap_or_default();
        let mut all = self.counted.lock();
        let counted = all.entry(uid).or_default();
        for labels in counted.conditions.drain(..) {
            self.drivers.get_or_create(&labels).dec();
        }
        for condition in status.conditions.iter().flatten() {
            let labels = [
                ("condition", condition.type_.clone()),
                ("status", format!("{:?}", condition.status)),
            ];
            self.drivers.get_or_create(&labels).inc();
            counted.conditions.push(labels);
        }
        let Some((ready, desired)) = nodes else {
            return;
        };
        for labels in counted.nodes.drain(..) {
            self.nodes.remove(&labels);
        }
        for (state, count) in [("ready", ready), ("desired", desired)] {
            let labels = [
                ("namespace", instance.namespace().unwrap_or_default()),
                ("name", instance.name_any()),
                ("driver", instance.spec.driver_name.clone()),
                ("state", state.to_owned()),
            ];
            self.nodes.get_or_create(&labels).set(count);
            counted.nodes.push(labels);
        }
    }

    /// Takes back what was counted for instances that are gone.
    pub(crate) fn keep_only(&self, uids: &HashSet<String>) {
        let counted = self.counted.lock();
        let gone: Vec<_> = counted
            .keys()
            .filter(|uid| !uids.contains(*uid))
            .cloned()
            .collect();
        drop(counted);
        for uid in gone {
            self.forget(&uid);
        }
    }

    /// Takes back what was counted for an instance.
    pub(crate) fn forget(&self, uid: &str) {
        let counted = self.counted.lock().remove(uid);
        let Some(counted) = counted else { return };
        for labels in counted.conditions {
            self.drivers.get_or_create(&labels).dec();
        }
        for labels in counted.nodes {
            self.nodes.remove(&labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instance_is_counted_once_and_its_nodes_stay_while_they_are_not_looked_at() {
        let registry = Metrics::new();
        let metrics = OperatorMetrics::register(&registry);
        let mut instance = CSIDriverDeployment::new("i", serde_json::from_value(json!({
            "driverName": "d", "driverPerNodeTemplate": {}, "driverSocket": "/csi/s", "nodeUpdateStrategy": "Rolling",
        })).unwrap());
        instance.metadata.uid = Some("1".to_owned());
        let status = |synced: &str| {
            let condition = json!({"type": "SyncSuccessful", "status": synced});
            serde_json::from_value(json!({"conditions": [condition]})).unwrap()
        };
        let shown = |line: &str| registry.encode().unwrap().contains(line);
        let ready = r#"driver="d",state="ready"} 2"#;

        metrics.observed(&instance, &status("True"), Some((2, 3)));
        assert!(shown(r#"{condition="SyncSuccessful",status="True"} 1"#) && shown(ready));
        metrics.observed(&instance, &status("False"), None);
        assert!(shown(r#"{condition="SyncSuccessful",status="True"} 0"#));
        assert!(shown(r#"{condition="SyncSuccessful",status="False"} 1"#) && shown(ready));
        metrics.keep_only(&HashSet::from(["1".to_owned()]));
        assert!(shown(ready));
        metrics.keep_only(&HashSet::new());
        assert!(shown(r#"{condition="SyncSuccessful",status="False"} 0"#) && !shown(ready));
    }
}
