//! What the DaemonSets and the Deployment of a driver count.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// Counts of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Workload {
    /// Name of the DaemonSet or Deployment.
    pub(super) name: String,
    /// How many pods there should be.
    pub(in super::super) desired: i64,
    /// How many are ready and have been for a while.
    pub(super) available: i64,
    /// How many are of the current template.
    pub(super) updated: i64,
    /// Whether these counts are about the current spec.
    pub(in super::super) is_current: bool,
    /// What the workload says about pods that it cannot create.
    pub(super) failure: Option<String>,
}

impl Workload {
    /// Reads the status of a DaemonSet.
    pub(in super::super) fn of_daemon_set(object: &DynamicObject) -> Self {
        let status = &object.data["status"];
        Self {
            name: object.name_any(),
            desired: number(&status["desiredNumberScheduled"]),
            available: number(&status["numberAvailable"]),
            updated: number(&status["updatedNumberScheduled"]),
            is_current: is_current(object),
            failure: None,
        }
    }

    /// Reads the status of a Deployment.
    pub(super) fn of_deployment(object: &DynamicObject) -> Self {
        let status = &object.data["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let failure = conditions
            .filter(|it| it["type"] == "ReplicaFailure" && it["status"] == "True")
            .find_map(|it| it["message"].as_str().map(str::to_owned));
        Self {
            name: object.name_any(),
            desired: number(&object.data["spec"]["replicas"]),
            available: number(&status["availableReplicas"]),
            updated: number(&status["updatedReplicas"]),
            is_current: is_current(object),
            failure,
        }
    }

    /// How many pods are not ready.
    pub(super) fn missing(&self) -> i64 {
        (self.desired - self.available).max(0)
    }

    /// Whether every pod is there and ready.
    pub(super) fn is_ready(&self) -> bool {
        self.is_current && self.missing() == 0
    }

    /// Whether it has not created any pod yet.
    pub(super) fn is_without_pods(&self) -> bool {
        !self.is_current && self.available == 0
    }

    /// Whether every pod is of the current template.
    pub(in super::super) fn is_rolled_out(&self) -> bool {
        self.is_current && self.updated >= self.desired
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn is_current(object: &DynamicObject) -> bool {
    let observed = object.data["status"]["observedGeneration"].as_i64();
    observed.is_some() && observed >= object.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_of_an_older_spec_are_not_believed() {
        let object = |observed: Option<i64>| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": {"name": "d", "generation": 2},
                "status": {"observedGeneration": observed, "desiredNumberScheduled": 0},
            }))
            .unwrap()
        };
        assert!(!Workload::of_daemon_set(&object(None)).is_ready());
        assert!(!Workload::of_daemon_set(&object(Some(1))).is_ready());
        assert!(Workload::of_daemon_set(&object(Some(2))).is_ready());
    }
}
