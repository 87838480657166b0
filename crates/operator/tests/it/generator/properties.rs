//! What is true of whatever is written into an instance.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::valid::Ports;
use stowage_operator::driver::{Kind, Object, build};
use stowage_operator::driver_deployment::validate::validate;
use stowage_operator::served::Versions;

use crate::generator::CASES;

/// Any JSON that a newer Kubernetes might allow in a template.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

prop_compose! {
    /// A template whose fields are none that we edit: their names begin with `x`.
    fn any_template()(
        pod in prop::collection::btree_map("x[a-z]{1,8}", any_json(), 0..4),
        container in prop::collection::btree_map("x[a-z]{1,8}", any_json(), 0..4),
        probe in prop::option::of(any_json()),
        others in 0..3_usize,
    ) -> Value {
        let mut first = Map::from_iter(container);
        first.insert("name".to_owned(), json!("first"));
        first.insert("securityContext".to_owned(), json!({"privileged": true, "xyz": 1}));
        first.extend(probe.map(|probe| ("livenessProbe".to_owned(), json!({"exec": probe}))));
        let mut containers = vec![Value::Object(first)];
        containers.extend((0..others).map(|index| json!({"name": format!("other{index}"), "args": ["a"]})));
        let mut spec = Map::from_iter(pod);
        spec.insert("containers".to_owned(), containers.into());
        spec.insert("volumes".to_owned(), json!([{"name": "mine", "xsource": {}}]));
        json!({"metadata": {"labels": {"a": "b"}, "xother": 1}, "spec": spec})
    }
}

/// Whether everything in `template` is in `result` too: lists may have grown at their end, objects may have more keys.
fn is_kept(template: &Value, result: &Value) -> bool {
    match (template, result) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .all(|(key, value)| after.get(key).is_some_and(|kept| is_kept(value, kept))),
        (Value::Array(before), Value::Array(after)) => {
            before.len() <= after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(value, kept)| is_kept(value, kept))
        }
        _ => template == result,
    }
}

fn objects_of(name: &str, driver: &str, template: &Value) -> Vec<Object> {
    let instance = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": "11111111-2222-3333-4444-555555555555"},
        "spec": {
            "driverName": driver,
            "driverPerNodeTemplate": template,
            "driverControllerTemplate": template,
            "driverSocket": "/run/csi/s",
            "nodeUpdateStrategy": "Rolling",
            "probePeriodSeconds": 5,
            "controllerReplicas": 3,
        },
    }));
    let ports = Ports::starting_at(Ports::FIRST);
    let driver = validate(&instance.unwrap(), &OperatorConfig::default(), ports).unwrap();
    build(&driver, &CASES[4].facts())
}

fn is_object_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

proptest! {
    #[test]
    fn nothing_in_a_template_is_lost(template in any_template()) {
        let objects = objects_of("name", "driver", &template);
        let workloads: Vec<_> = objects
            .iter()
            .filter_map(|object| object.body.get("spec")?.get("template"))
            .collect();
        prop_assert_eq!(workloads.len(), 2);
        for result in workloads {
            prop_assert!(is_kept(&template, result), "{} became {}", template, result);
        }
    }

    #[test]
    fn every_name_and_label_is_one_that_the_cluster_takes(
        name in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\\.[a-z0-9]{1,10})?",
        driver in "[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?",
    ) {
        let template = json!({"spec": {"containers": [{"name": "d", "securityContext": {"privileged": true}}]}});
        for object in objects_of(&name, &driver, &template) {
            prop_assert!(is_object_name(&object.name), "{:?} {}", object.kind, object.name);
            prop_assert_eq!(object.namespace.is_some(), object.kind.is_namespaced());
            for value in object.labels.values() {
                prop_assert!(value.len() <= 63);
            }
            let manifest = object.manifest(Versions::NEWEST);
            prop_assert!(manifest["metadata"]["labels"]["stowage.dev/owner-uid"].is_string());
            prop_assert!(manifest["metadata"]["ownerReferences"].is_null());
        }
    }
}

#[test]
fn no_two_objects_are_the_same_one() {
    for case in CASES {
        let mut seen: Vec<(Kind, Option<String>, String)> = Vec::new();
        for object in case.objects() {
            let key = (object.kind, object.namespace, object.name);
            assert!(!seen.contains(&key), "{}: {key:?}", case.name);
            seen.push(key);
        }
    }
}
