//! What is read of an instance that cannot be read as a whole: one that another version wrote, or a person without our
//! definition.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stowage_api::driver_deployment::{
    CSIDriverDeploymentSpec, CSIDriverDeploymentStatus, DrainStatus, DrainingNode,
};

/// What decides about a deletion and its order.
pub(super) fn spec(stored: &Value) -> CSIDriverDeploymentSpec {
    let word = |field: &str| stored[field].as_str().map(str::to_owned);
    CSIDriverDeploymentSpec {
        driver_name: word("driverName").unwrap_or_default(),
        management_state: word("managementState"),
        uninstall_policy: word("uninstallPolicy"),
        startup_taint: word("startupTaint"),
        node_update_strategy: word("nodeUpdateStrategy").unwrap_or_default(),
        ..CSIDriverDeploymentSpec::default()
    }
}

/// The whole status, or as much of it as must not be forgotten: which driver runs, by which objects, and which nodes are kept
/// from pods.
pub(super) fn status(stored: &Value) -> CSIDriverDeploymentStatus {
    let whole = serde_json::from_value(stored.clone());
    whole.unwrap_or_else(|_| CSIDriverDeploymentStatus {
        driver_name: read(&stored["driverName"]),
        first_port: read(&stored["firstPort"]),
        state: read(&stored["state"]),
        children: Some(each(&stored["children"])).filter(|it| !it.is_empty()),
        drain: drain(&stored["drain"]),
        ..CSIDriverDeploymentStatus::default()
    })
}

fn read<T: DeserializeOwned>(stored: &Value) -> Option<T> {
    serde_json::from_value(stored.clone()).ok()
}

fn each<T: DeserializeOwned>(stored: &Value) -> Vec<T> {
    let all = stored.as_array().into_iter().flatten();
    all.filter_map(read).collect()
}

/// Of a node that is under way its name is enough.
fn drain(stored: &Value) -> Option<DrainStatus> {
    let nodes = stored["nodes"].as_array()?.iter();
    let named = |name: &str| DrainingNode {
        name: name.to_owned(),
        since: Time(Timestamp::UNIX_EPOCH),
        waiting_for: None,
        unused_since: None,
        replaced_since: None,
        mounts: None,
    };
    let node = |stored: &Value| {
        let name = stored["name"].as_str()?;
        Some(read(stored).unwrap_or_else(|| named(name)))
    };
    Some(DrainStatus {
        nodes: nodes.filter_map(node).collect(),
        ..DrainStatus::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_must_not_be_forgotten_is_read_whatever_else_is_wrong() {
        let child = json!({"resource": "DaemonSet", "name": "d", "lastGeneration": 1, "uid": "1"});
        let stored = json!({
            "driverName": "d.example",
            "conditions": "once it was a text",
            "children": [child, {"resource": 7}],
            "drain": {"nodes": [{"name": "a", "since": "yesterday"}, {}]},
        });
        let status = status(&stored);
        assert_eq!(status.driver_name.as_deref(), Some("d.example"));
        assert_eq!(status.children.unwrap()[0].name, "d");
        let nodes = status.drain.unwrap().nodes;
        assert_eq!(nodes.len(), 1);
        assert_eq!(nodes[0].name, "a");
        assert_eq!(super::status(&Value::Null).driver_name, None);
        assert_eq!(spec(&json!({"driverName": "d"})).driver_name, "d");
    }
}
