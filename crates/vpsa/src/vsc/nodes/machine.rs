//! Nodes of the cluster: what is kept of each.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use stowage_kubernetes::store::Cached;

/// A Node, and since when it has not been ready.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    name: String,
    lost_since: Option<Timestamp>,
}

impl Cached for Machine {
    fn key(&self) -> &str {
        &self.name
    }
}

impl Machine {
    /// What is kept of a Node. One that nobody has reported on yet is not lost.
    pub fn of(node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|it| it.type_ == "Ready");
        let lost = ready.filter(|it| it.status != "True");
        let since = lost.and_then(|it| it.last_transition_time.as_ref());
        Self {
            name: node.name_any(),
            lost_since: since.map(|time| time.0),
        }
    }

    /// For how long it has not been ready.
    pub fn lost(&self, now: Timestamp) -> Option<Duration> {
        let since = self.lost_since?;
        // A clock may be behind.
        Some(Duration::try_from(now.duration_since(since)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_lost_since_it_is_not_ready() {
        let node = |conditions| {
            let node = json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
            Machine::of(&serde_json::from_value(node).unwrap())
        };
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let condition = |status: &str, since: &str| {
            json!([{"type": "DiskPressure", "status": "False"},
            {"type": "Ready", "status": status, "lastTransitionTime": since}])
        };
        for (conditions, lost) in [
            (json!([]), None),
            (condition("True", "2026-01-01T00:00:00Z"), None),
            (condition("Unknown", "2026-01-01T00:00:00Z"), Some(60)),
            (condition("False", "2026-01-01T00:00:30Z"), Some(30)),
            (condition("False", "2026-01-01T00:02:00Z"), Some(0)),
        ] {
            let lost = lost.map(Duration::from_secs);
            assert_eq!(node(conditions).lost(now), lost);
        }
    }
}
