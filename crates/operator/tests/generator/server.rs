//! What a real API server says to the objects.

use devcluster::testing::ApiServer;
use serde_json::Value;
use stowage_operator::driver::{BudgetVersion, Kind, Object};

use crate::{CASES, weka};

fn server() -> &'static ApiServer {
    use std::sync::OnceLock;
    static SERVER: OnceLock<ApiServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = ApiServer::start().unwrap();
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
        server.kubectl(&["apply", "-f", crds]).unwrap();
        server.wait_for_definitions().unwrap();
        for namespace in ["array", "backup", "weka", "weka-operator-system", "storage"] {
            server.kubectl(&["create", "namespace", namespace]).unwrap();
        }
        // Nobody else makes it here.
        let account = ["create", "serviceaccount", "default", "-n", "weka"];
        server.kubectl(&account).unwrap();
        server
    })
}

/// The version of budgets that the server has.
fn budget_version() -> BudgetVersion {
    let versions = server().kubectl(&["api-versions"]).unwrap();
    if versions.lines().any(|version| version == "policy/v1") {
        BudgetVersion::V1
    } else {
        BudgetVersion::V1beta1
    }
}

fn apply(object: &Object, arguments: &[&str]) -> Result<Value, String> {
    let mut manifest = object.manifest(budget_version());
    if object.kind == Kind::Pod {
        // Nobody makes tokens for accounts here.
        manifest["spec"]["automountServiceAccountToken"] = false.into();
    }
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
    for (name, objects) in drivers.into_iter().chain(clients) {
        for object in &objects {
            // Client-side schemas of 1.20 do not know fields from the future; the server decides.
            let stored = apply(object, &["--validate=false"]);
            let title = format!("{name}: {} {}", object.kind.name(), object.name);
            let stored = stored.unwrap_or_else(|error| panic!("{title}: {error}"));
            for (key, wanted) in &object.body {
                assert_stored(wanted, &stored[key], &format!("{title}: {key}"));
            }
        }
        // The next case may use the same names with fields that cannot be changed.
        for object in &objects {
            let mut arguments = vec!["delete", object.kind.name(), &object.name, "--force"];
            if let Some(namespace) = &object.namespace {
                arguments.extend(["--namespace", namespace]);
            }
            server().kubectl(&arguments).unwrap();
        }
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
        assert_eq!(stored["spec"], instance["spec"], "{}", case.name);
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
            apply(&object, &[]).unwrap();
        }
    }
    let can = |account: &str, question: &[&str]| {
        let account = format!("system:serviceaccount:array:{account}-2");
        let arguments = [&["auth", "can-i", "--as", &account], question].concat();
        server().kubectl(&arguments).is_ok()
    };
    for allowed in [
        &["create", "persistentvolumes"][..],
        &["patch", "volumeattachments/status.storage.k8s.io"],
        &["update", "leases.coordination.k8s.io", "-n", "array"],
        &["get", "secrets/array", "-n", "array"],
        &["get", "secrets/snapshots", "-n", "backup"],
    ] {
        assert!(can("array", allowed), "{allowed:?}");
        assert!(!can("array-node", allowed), "node pods: {allowed:?}");
    }
    for refused in [
        &["get", "secrets/other", "-n", "array"][..],
        &["list", "secrets", "-n", "array"],
        &["get", "secrets/array", "-n", "default"],
        &["update", "leases.coordination.k8s.io", "-n", "default"],
        &["delete", "nodes"],
        &["create", "pods"],
    ] {
        assert!(!can("array", refused), "{refused:?}");
    }
}
