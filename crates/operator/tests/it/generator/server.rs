//! What a real API server says to the objects.

use std::sync::OnceLock;

use devcluster::testing::ApiServer;
use serde_json::{Value, json};
use stowage_operator::driver::{Kind, Object};
use stowage_operator::served::Versions;
use stowage_testing::{Lent, define, shared_for};

use crate::generator::{CASES, weka};

fn server() -> &'static ApiServer {
    static SERVER: OnceLock<Lent> = OnceLock::new();
    SERVER.get_or_init(|| shared_for("generator", prepare))
}

fn prepare(server: &ApiServer) {
    define(server, &[""]);
    for namespace in [
        "array",
        "backup",
        "weka",
        "weka-operator-system",
        "storage",
        "variants",
    ] {
        server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    // Nobody else makes it here.
    let account = ["create", "serviceaccount", "default", "-n", "weka"];
    server.kubectl(&account).unwrap();
}

/// The versions that the server has.
fn versions() -> Versions {
    static VERSIONS: OnceLock<Versions> = OnceLock::new();
    *VERSIONS.get_or_init(ask_versions)
}

fn ask_versions() -> Versions {
    let served = server().kubectl(&["api-versions"]).unwrap();
    let has_budgets = served.lines().any(|version| version == "policy/v1");
    let kinds = server().kubectl(&["api-resources", "-o", "name"]).unwrap();
    let has_attributes = kinds.contains("volumeattributesclasses.storage.k8s.io");
    Versions {
        budget: if has_budgets { "v1" } else { "v1beta1" },
        attributes_class: has_attributes.then_some("v1"),
        // Nobody installs it here.
        service_monitor: None,
        ..Versions::NEWEST
    }
}

fn manifest(object: &Object) -> Value {
    let mut manifest = object.manifest(versions());
    if object.kind == Kind::Pod {
        // Nobody makes tokens for accounts here.
        manifest["spec"]["automountServiceAccountToken"] = false.into();
    }
    manifest
}

fn apply(manifest: &Value, arguments: &[&str]) -> Result<Value, String> {
    let manifest = manifest.to_string();
    let arguments = [&["apply", "-f", "-", "-o", "json"], arguments].concat();
    let text = server().kubectl_with_input(&arguments, &manifest);
    let text = text.map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&text).unwrap())
}

/// Fields whose loss is expected: no server knows them.
const FROM_THE_FUTURE: &str = "fieldFromTheFuture";

/// Everything that was asked for is there; the server may add defaults.
fn assert_stored(wanted: &Value, stored: &Value, path: &str) {
    match (wanted, stored) {
        (Value::Object(wanted), _) => {
            for (key, value) in wanted.iter().filter(|(key, _)| *key != FROM_THE_FUTURE) {
                assert_stored(value, &stored[key], &format!("{path}.{key}"));
            }
        }
        (Value::Array(wanted), Value::Array(list)) => {
            assert_eq!(wanted.len(), list.len(), "{path}");
            for (index, (wanted, stored)) in wanted.iter().zip(list).enumerate() {
                assert_stored(wanted, stored, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(wanted, stored, "{path}"),
    }
}

#[test]
fn a_server_takes_every_object_and_keeps_every_field() {
    let drivers = CASES.map(|case| (case.name, case.objects()));
    let clients = weka::CASES.map(|case| (case, weka::objects(case)));
    let versions = versions();
    for (name, mut objects) in drivers.into_iter().chain(clients) {
        objects.retain(|object| object.kind.version(versions).is_some());
        let items: Vec<_> = objects.iter().map(manifest).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        // Client-side schemas of 1.20 do not know fields from the future; the server decides.
        let stored = apply(&list, &["--validate=false"]);
        let stored = stored.unwrap_or_else(|error| panic!("{name}: {error}"));
        // One alone is not a list.
        let one = vec![stored.clone()];
        let stored = stored["items"].as_array().unwrap_or(&one);
        assert_eq!(stored.len(), objects.len(), "{name}");
        for (object, stored) in objects.iter().zip(stored) {
            let title = format!("{name}: {} {}", object.kind.name(), object.name);
            assert_eq!(stored["metadata"]["name"], object.name, "{title}");
            for (key, wanted) in &object.body {
                assert_stored(wanted, &stored[key], &format!("{title}: {key}"));
            }
        }
        // The controller that lets such classes go, since 1.34, does not run here.
        for object in &objects {
            if object.kind == Kind::VolumeAttributesClass {
                let free = r#"{"metadata": {"finalizers": null}}"#;
                let class = ["volumeattributesclass", &object.name];
                let patch = [&["patch"], &class[..], &["--type=merge", "-p", free]].concat();
                server().kubectl(&patch).unwrap();
            }
        }
        // The next case may use the same names with fields that cannot be changed.
        let delete = ["delete", "--force", "--timeout=60s", "-f", "-"];
        let deleted = server().kubectl_with_input(&delete, &list.to_string());
        deleted.unwrap();
    }
}

#[test]
fn a_server_takes_the_instances_themselves() {
    for case in CASES {
        let mut instance = serde_json::to_value(case.instance()).unwrap();
        instance["metadata"].as_object_mut().unwrap().remove("uid");
        let arguments = ["apply", "--dry-run=server", "-f", "-", "-o", "json"];
        let stored = server()
            .kubectl_with_input(&arguments, &instance.to_string())
            .unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        for (field, written) in instance["spec"].as_object().unwrap() {
            let title = format!("{}: {field}", case.name);
            let stored = &stored["spec"][field];
            match field.as_str() {
                // The server fills in defaults.
                "nodeDrain" | "sidecars" | "csiDriver" => assert_stored(written, stored, &title),
                _ => assert_eq!(stored, written, "{title}"),
            }
        }
    }
}

#[test]
fn a_server_fills_in_what_is_left_out_and_refuses_what_no_field_may_be() {
    let dry_run = |change: &dyn Fn(&mut Value)| {
        let mut instance = serde_json::to_value(CASES[0].instance()).unwrap();
        instance["metadata"].as_object_mut().unwrap().remove("uid");
        change(&mut instance["spec"]);
        let arguments = ["apply", "--dry-run=server", "-f", "-", "-o", "json"];
        server().kubectl_with_input(&arguments, &instance.to_string())
    };
    let stored = dry_run(&|spec| {
        for section in ["nodeDrain", "sidecars", "csiDriver"] {
            spec[section] = json!({});
        }
    });
    let stored: Value = serde_json::from_str(&stored.unwrap()).unwrap();
    let spec = &stored["spec"];
    assert_eq!(spec["managementState"], "Managed");
    assert_eq!(spec["uninstallPolicy"], "WhenUnused");
    assert_eq!(spec["sidecars"], json!({"secretAccess": "Named"}));
    assert_eq!(spec["csiDriver"], json!({"updatePolicy": "Report"}));
    let drain = json!({
        "paused": false, "timeoutSeconds": 1800, "settleSeconds": 30, "barePods": "Hold", "emptyDirPods": "Hold",
        "daemonSetPods": "Hold",
    });
    assert_eq!(spec["nodeDrain"], drain);
    assert!(
        spec["restartOn"].is_null(),
        "a section that is left out says nothing"
    );

    let twice = json!({"configMaps": ["a", "a"]});
    for (field, wrong) in [
        ("driverName", json!("-a")),
        ("driverName", json!("a b")),
        ("startupTaint", json!("/key")),
        ("startupTaint", json!("Domain/key")),
        ("restartOn", twice),
    ] {
        let refused = dry_run(&|spec| spec[field] = wrong.clone());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(field), "{field} {wrong}: {refused}");
    }
    for (field, right) in [
        ("driverName", json!("a")),
        ("driverName", json!("org.acme.csi_hostpath-2")),
        ("startupTaint", json!("key")),
        ("startupTaint", json!("startup.example.com/driver_1.x")),
    ] {
        let taken = dry_run(&|spec| spec[field] = right.clone());
        assert!(taken.is_ok(), "{field} {right}: {taken:?}");
    }
}

#[test]
fn accounts_can_do_what_their_sidecars_need_and_no_more() {
    let case = &CASES[4];
    let rbac = [
        Kind::ServiceAccount,
        Kind::ClusterRole,
        Kind::ClusterRoleBinding,
        Kind::Role,
        Kind::RoleBinding,
    ];
    for mut object in case.objects() {
        if rbac.contains(&object.kind) {
            // Beside the other test, which uses the same names.
            if object.namespace.is_none() {
                object.name = format!("{}-2", object.name);
            }
            if object.kind == Kind::ClusterRoleBinding {
                object.body["roleRef"]["name"] = object.name.clone().into();
            }
            if let Some(subjects) = object.body.get_mut("subjects") {
                subjects[0]["name"] = format!("{}-2", subjects[0]["name"].as_str().unwrap()).into();
            }
            let suffixed = matches!(
                object.kind,
                Kind::ServiceAccount | Kind::Role | Kind::RoleBinding
            );
            if suffixed {
                object.name = format!("{}-2", object.name);
            }
            if object.kind == Kind::RoleBinding {
                object.body["roleRef"]["name"] = object.name.clone().into();
            }
            apply(&manifest(&object), &[]).unwrap();
        }
    }
    let secret = |name: &str, namespace: &str| json!({"verb": "get", "resource": "secrets", "name": name, "namespace": namespace});
    let lease = |namespace: &str| json!({"verb": "update", "group": "coordination.k8s.io", "resource": "leases", "namespace": namespace});
    for allowed in [
        json!({"verb": "create", "resource": "persistentvolumes"}),
        json!({"verb": "patch", "group": "storage.k8s.io", "resource": "volumeattachments", "subresource": "status"}),
        lease("array"),
        secret("array", "array"),
        secret("snapshots", "backup"),
    ] {
        assert!(may("array-2", &allowed), "{allowed}");
        assert!(!may("array-node-2", &allowed), "node pods: {allowed}");
    }
    for refused in [
        secret("other", "array"),
        json!({"verb": "list", "resource": "secrets", "namespace": "array"}),
        secret("array", "default"),
        lease("default"),
        json!({"verb": "delete", "resource": "nodes"}),
        json!({"verb": "create", "resource": "pods", "namespace": "array"}),
    ] {
        assert!(!may("array-2", &refused), "{refused}");
    }
}

/// What the server says to an account of the namespace `array`. Only its answer counts: no answer is no refusal.
fn may(account: &str, what: &Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": format!("system:serviceaccount:array:{account}"), "resourceAttributes": what},
    });
    let arguments = ["create", "-f", "-", "-o", "json"];
    let answer = server().kubectl_with_input(&arguments, &review.to_string());
    let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
    assert!(answer["status"]["evaluationError"].is_null(), "{answer}");
    answer["status"]["allowed"].as_bool().unwrap()
}
