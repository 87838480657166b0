use serde_json::{Value, json};

use super::*;
use crate::CrdGroup;

fn instance() -> Value {
    json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1",
        "kind": "CSIDriverDeployment",
        "metadata": {"name": "hostpath", "namespace": "default"},
        "spec": {
            "driverName": "csi-hostpath",
            "driverPerNodeTemplate": {"spec": {"containers": [{"name": "d", "newerField": {"a": [1]}}]}},
            "driverSocket": "/run/csi/csi.sock",
            "nodeUpdateStrategy": "Rolling",
            "storageClassTemplates": [{"metadata": {"name": "c", "creationTimestamp": null}, "default": true, "colour": "red"}],
            "sidecars": {"containers": {"node": {"extraArgs": ["--v=7"], "later": 1}}},
            "fromTheFuture": [1, 2],
        },
    })
}

#[test]
fn nothing_is_lost_between_the_wire_and_the_types() {
    let typed: CSIDriverDeployment = serde_json::from_value(instance()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), instance());
}

#[test]
fn what_this_version_does_not_know_can_be_named() {
    let typed: CSIDriverDeployment = serde_json::from_value(instance()).unwrap();
    let spec = typed.spec;
    assert!(spec.unknown.contains_key("fromTheFuture"));
    let class = &spec.storage_class_templates.unwrap()[0];
    assert!(class.unknown.contains_key("colour"));
    let containers = spec.sidecars.unwrap().containers.unwrap();
    assert!(containers["node"].unknown.contains_key("later"));
}

#[test]
fn a_status_from_2018_is_understood() {
    let status: CSIDriverDeploymentStatus = serde_json::from_value(json!({
        "observedGeneration": 3,
        "state": "Managed",
        "children": [{"group": "apps", "resource": "DaemonSet", "namespace": "n", "name": "h-node", "lastGeneration": 2}],
        "conditions": [{"type": "Available", "status": "True", "lastTransitionTime": null}],
    }))
    .unwrap();
    assert_eq!(status.children.unwrap()[0].uid, None);
    assert_eq!(status.conditions.unwrap()[0].status, ConditionStatus::True);
}

#[test]
fn the_columns_of_2018_come_first() {
    let crd = CrdGroup::DriverDeployments.crds().remove(0);
    let columns = crd.spec.versions[0].additional_printer_columns.clone();
    let columns: Vec<_> = columns
        .unwrap()
        .into_iter()
        .map(|column| format!("{} {}", column.name, column.json_path))
        .collect();
    assert_eq!(
        columns,
        [
            "Driver .spec.driverName",
            "State .status.state",
            r#"Available .status.conditions[?(@.type=="Available")].status"#,
            r#"SyncSuccessful .status.conditions[?(@.type=="SyncSuccessful")].status"#,
            "Nodes .status.nodes",
            "Message .status.message",
            "Age .metadata.creationTimestamp",
        ]
    );
}

/// Every object of the schema that a user fills in keeps what it does not describe, or a mistyped field would vanish
/// before the operator can point at it.
#[test]
fn no_object_of_the_spec_drops_unknown_fields() {
    fn check(path: &str, schema: &Value) {
        let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let is_map = schema["additionalProperties"].is_object();
        assert!(
            schema["type"] != "object" || keeps || is_map,
            "{path}: {schema}"
        );
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{path}.{name}"), property);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                check(&format!("{path}.{inner}"), &schema[inner]);
            }
        }
    }
    let crd = CrdGroup::DriverDeployments.crds().remove(0);
    let schema = crd.spec.versions[0].schema.clone().unwrap();
    let schema = serde_json::to_value(schema.open_api_v3_schema.unwrap()).unwrap();
    check("spec", &schema["properties"]["spec"]);
}
