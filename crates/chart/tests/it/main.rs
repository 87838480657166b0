//! Our charts: what they come to, for every value.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod ownership;
mod schemas;
mod upstream;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::comments::{self, Documented};
use stowage_chart::manifest::Manifest;
use stowage_chart::render::{Identity, Rendered, no_cluster, render};
use stowage_chart::values::overlay;
use stowage_chart::{Error, from_yaml};

fn directory(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts")).join(name)
}

fn chart(name: &str) -> Chart {
    Chart::load(&directory(name)).unwrap()
}

fn documented(name: &str) -> Vec<Documented> {
    let file = directory(name).join("values.yaml");
    comments::read(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn rendered(name: &str, own: &Value) -> Result<Rendered, Error> {
    render(
        &chart(name),
        own,
        &Identity::new("here", "mine"),
        no_cluster(),
    )
}

fn manifest(name: &str, own: &Value) -> Manifest {
    Manifest::of(&rendered(name, own).unwrap()).unwrap()
}

fn titles(manifest: &Manifest) -> BTreeSet<String> {
    manifest
        .objects
        .iter()
        .map(|it| format!("{}/{}", it.kind(), it.name()))
        .collect()
}

/// Everything switched on, so that every value could have an effect.
fn everything() -> Value {
    json!({
        "imagePullSecrets": [{"name": "site"}],
        "operator": {"draining": true, "startupTaint": true, "secretsOfAllNamespaces": true, "podMonitor": true},
        "wekaClients": {"enabled": true}, "csi": {"installationEnabled": true},
        "snapshotController": {"enabled": true},
        "drivers": {
            "hostpath": {"enabled": true},
            "weka": {"enabled": true, "images": {"csidriver": "", "csidriverTag": ""}},
            "vpsa": {"enabled": true, "plugin": {"stonith": {"enable": true}}},
        },
    })
}

/// Another value that the schema allows.
fn another(value: &Documented) -> Option<Value> {
    if let Some(words) = value.schema["enum"].as_array() {
        return words
            .iter()
            .find(|it| **it != value.default && it.is_string())
            .cloned();
    }
    Some(match &value.default {
        Value::Bool(it) => json!(!it),
        Value::Number(it) => json!(it.as_i64().unwrap() + 1),
        Value::String(_) if value.schema["maxLength"] == 7 => json!("other-"),
        Value::Array(_) if value.schema["items"]["type"] == "string" => json!(["another"]),
        Value::Array(_) if value.schema["items"]["required"][0] == "metadata" => {
            json!([{"metadata": {"name": "another"}}])
        }
        Value::Array(_) if value.schema["items"]["required"].is_array() => {
            json!([{"name": "another"}])
        }
        Value::Array(_) => json!([{"key": "another"}]),
        Value::Object(_) if !value.schema["properties"]["wekafs"].is_null() => {
            json!({"requests": {"cpu": "1"}})
        }
        Value::Object(_) => json!({"another": "another"}),
        Value::Null if value.schema["minimum"] == 0 => json!(7),
        Value::String(_) | Value::Null => json!("another"),
    })
}

fn at(path: &[String], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |value, name| json!({name: value}))
}

/// Values that mean something only together with others.
fn together(path: &str) -> Value {
    match path {
        "drivers.weka.images.csidriverTag" | "drivers.weka.csiDriverVersion" => {
            json!({"drivers": {"weka": {"images": {"csidriver": "theirs"}}}})
        }
        "drivers.vpsa.plugin.stonith.enable" => {
            json!({"drivers": {"vpsa": {"plugin": {"stonith": {"enable": false}}}}})
        }
        "wekaClients.enabled" => json!({"csi": {"installationEnabled": false}}),
        "drivers.weka.selinuxNodeLabel" => {
            json!({"drivers": {"weka": {"selinuxSupport": "mixed"}}})
        }
        _ => json!({}),
    }
}

#[test]
fn every_value_has_an_effect() {
    // Each array says how it is reached; the values exist because the chart of Zadara has them.
    const FIXED: [&str; 2] = ["drivers.vpsa.vpsa.useTLS", "drivers.vpsa.vpsa.verifyTLS"];
    let usual = rendered("stowage", &everything()).unwrap();
    let mut without = Vec::new();
    for value in documented("stowage") {
        let path = value.path.join(".");
        if FIXED.contains(&path.as_str()) {
            continue;
        }
        let mut own = everything();
        let others = together(&path);
        overlay(&mut own, &others);
        let current = value.path.iter().fold(&own, |at, name| &at[name]);
        let other = match current {
            Value::Bool(it) => json!(!it),
            _ => another(&value).unwrap(),
        };
        let before = if others == json!({}) {
            usual.clone()
        } else {
            rendered("stowage", &own).unwrap()
        };
        overlay(&mut own, &at(&value.path, other));
        let after = rendered("stowage", &own).unwrap_or_else(|error| panic!("{path}: {error}"));
        Manifest::of(&after).unwrap_or_else(|error| panic!("{path}: {error}"));
        if before.texts == after.texts {
            without.push(path);
        }
    }
    assert_eq!(without, Vec::<String>::new(), "values without an effect");
}

#[test]
fn the_second_chart_is_the_same_driver_under_other_names() {
    let ours = manifest("csi-wekafsplugin", &json!({}));
    let all = titles(&ours);
    for title in [
        "Deployment/csi-operator",
        "ConfigMap/mine-instance-weka",
        "ClusterRole/mine-node-labels",
    ] {
        assert!(all.contains(title), "{title}: {all:?}");
    }
    let instance = instance(&ours, "mine-instance-weka");
    assert_eq!(
        instance["metadata"],
        json!({"name": "mine", "namespace": "here"})
    );
    let labels = &instance["spec"]["driverPerNodeTemplate"]["metadata"]["labels"];
    assert_eq!(
        labels,
        &json!({"app": "csi-wekafs-node", "component": "csi-wekafs-node"})
    );
    let container = &instance["spec"]["driverControllerTemplate"]["spec"]["containers"][0];
    assert_eq!(container["name"], "wekafs");

    // The same values give the same instance in both.
    let values = json!({"legacyVolumeSecretName": "old", "pluginConfig": {"mountProtocol": {"useNfs": true}}});
    let second = manifest("csi-wekafsplugin", &values);
    let mut below = values.clone();
    overlay(&mut below, &json!({"enabled": true, "name": "mine"}));
    let first = manifest("stowage", &json!({"drivers": {"weka": below}}));
    assert_eq!(
        self::instance(&first, "mine-instance-weka"),
        self::instance(&second, "mine-instance-weka")
    );

    let alone = manifest(
        "csi-wekafsplugin",
        &json!({"stowage": {"operator": {"enabled": false}}}),
    );
    assert!(!titles(&alone).contains("Deployment/csi-operator"));
}

fn instance(manifest: &Manifest, name: &str) -> Value {
    let map = manifest
        .objects
        .iter()
        .find(|it| it.name() == name)
        .unwrap();
    from_yaml(map.0["data"]["instance.yaml"].as_str().unwrap()).unwrap()
}

#[test]
fn the_least_is_an_operator_and_what_a_release_switches_on_is_there() {
    let least = manifest("stowage", &json!({}));
    let all = titles(&least);
    assert!(all.contains("Deployment/csi-operator"), "{all:?}");
    assert!(
        !all.iter()
            .any(|it| it.contains("instance") || it.contains("snapshot")),
        "{all:?}"
    );
    // Nothing is granted that was not asked for.
    assert!(
        !all.contains("ClusterRoleBinding/csi-operator-secrets"),
        "{all:?}"
    );
    let whole = titles(&manifest("stowage", &everything()));
    for title in [
        "Deployment/snapshot-controller",
        "ConfigMap/mine-instance-hostpath",
        "ConfigMap/mine-instance-weka",
        "ConfigMap/mine-instance-vpsa",
        "ClusterRoleBinding/csi-operator-secrets",
        "ClusterRoleBinding/csi-operator-weka",
        "ClusterRole/csi-vpsa-node-loss",
    ] {
        assert!(whole.contains(title), "{title}: {whole:?}");
    }
}

#[test]
fn hooks_come_in_order_and_their_rights_go_with_them() {
    let manifest = manifest("stowage", &everything());
    let at = |event: &str| -> Vec<String> {
        let hooks = manifest.hooks_at(event);
        hooks
            .map(|it| format!("{}/{}", it.object.kind(), it.object.name()))
            .collect()
    };
    let before = at("pre-install");
    assert_eq!(
        before.last().unwrap(),
        "Job/mine-setup-definitions",
        "{before:?}"
    );
    assert_eq!(
        at("post-upgrade").last().unwrap(),
        "Job/mine-setup-instances"
    );
    assert_eq!(at("pre-delete").last().unwrap(), "Job/mine-setup-remove");
    for hook in &manifest.hooks {
        let name = hook.object.name();
        assert!(
            hook.deleted.iter().any(|it| it == "hook-succeeded"),
            "{name} stays"
        );
    }
    // Definitions and instances are not Helm's to delete.
    let kinds = titles(&manifest);
    assert!(
        !kinds
            .iter()
            .any(|it| it.starts_with("CustomResourceDefinition/")
                || it.starts_with("CSIDriverDeployment/"))
    );
}

#[test]
fn values_that_make_no_sense_are_named() {
    for (own, words) in [
        (
            json!({"drivers": {"weka": {"selinuxSupport": "on"}}}),
            "drivers.weka.selinuxSupport: must be one of the following: \"off\", \"mixed\", \"enforced\"",
        ),
        (
            json!({"operator": {"replicas": "two"}}),
            "operator.replicas: Invalid type. Expected: integer, given: string",
        ),
        (
            json!({"operator": {"replcas": 2}}),
            "operator: Additional property replcas is not allowed",
        ),
        (
            json!({"drivers": {"hostpath": {"layout": "nowhere"}}}),
            "drivers.hostpath.layout: must be one of",
        ),
        (
            json!({"setup": {"timeoutSeconds": 1}}),
            "setup.timeoutSeconds: must be at least 60",
        ),
    ] {
        let error = rendered("stowage", &own).unwrap_err().to_string();
        assert!(
            error.contains(words) && error.contains("stowage:"),
            "{error}"
        );
    }
    let alone = json!({"csi": {"installationEnabled": true}});
    let error = rendered("stowage", &alone).unwrap_err().to_string();
    assert!(
        error.contains("without wekaClients.enabled=true"),
        "{error}"
    );
    // A word that Helm reads as false.
    let off = rendered(
        "stowage",
        &json!({"drivers": {"weka": {"enabled": true, "selinuxSupport": false}}}),
    )
    .unwrap();
    let words = rendered("stowage", &json!({"drivers": {"weka": {"enabled": true}}})).unwrap();
    assert_eq!(off.texts, words.texts);
}

#[test]
fn a_second_operator_is_refused_with_a_way_out() {
    let with_owner = |annotations: Value| {
        let role = json!({"metadata": {"name": "csi-operator", "annotations": annotations}});
        let lookup = move |_: &str, kind: &str, _: &str, name: &str| {
            (kind == "ClusterRole" && name == "csi-operator").then(|| role.clone())
        };
        render(
            &chart("stowage"),
            &json!({}),
            &Identity::new("here", "mine"),
            Arc::new(lookup),
        )
    };
    let other =
        json!({"meta.helm.sh/release-name": "first", "meta.helm.sh/release-namespace": "there"});
    let error = with_owner(other).unwrap_err().to_string();
    assert!(
        error.contains("release first in namespace there")
            && error.contains("operator.enabled=false"),
        "{error}"
    );
    let error = with_owner(json!({})).unwrap_err().to_string();
    assert!(error.contains("not installed by Helm"), "{error}");
    let own =
        json!({"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "here"});
    assert!(with_owner(own).is_ok());
}

#[test]
fn an_instance_of_somebody_else_is_refused_before_anything_changes() {
    let with = |labels: Value, has_definition: bool| {
        let lookup = move |_: &str, kind: &str, namespace: &str, name: &str| match kind {
            "CustomResourceDefinition" => has_definition.then(|| json!({"metadata": {}})),
            "CSIDriverDeployment" => {
                assert!(
                    has_definition,
                    "Helm cannot look up a kind that is not there"
                );
                assert_eq!((namespace, name), ("here", "hostpath"));
                Some(json!({"metadata": {"labels": labels}}))
            }
            _ => None,
        };
        let own = json!({"drivers": {"hostpath": {"enabled": true}}});
        let release = Identity::new("here", "mine");
        render(&chart("stowage"), &own, &release, Arc::new(lookup))
    };
    let ours = json!({"stowage.dev/release": "mine", "stowage.dev/release-namespace": "here"});
    assert!(with(ours.clone(), true).is_ok());
    assert!(with(Value::Null, false).is_ok());
    let mut of_another_namespace = ours;
    of_another_namespace["stowage.dev/release-namespace"] = json!("elsewhere");
    for labels in [Value::Null, json!({}), of_another_namespace] {
        let error = with(labels, true).unwrap_err().to_string();
        for words in [
            "CSIDriverDeployment here/hostpath exists and is not of this release",
            "stowage.dev/release=mine stowage.dev/release-namespace=here",
        ] {
            assert!(error.contains(words), "{error}");
        }
    }
}

#[test]
fn the_drivers_namespace_is_left_to_whoever_made_it() {
    let with = |annotations: Value| {
        let namespace = json!({"metadata": {"annotations": annotations}});
        let lookup = move |_: &str, kind: &str, _: &str, name: &str| {
            let is_it = (kind, name) == ("Namespace", "weka-operator-system");
            (is_it && !namespace["metadata"]["annotations"].is_string()).then(|| namespace.clone())
        };
        let own = json!({"wekaClients": {"enabled": true}});
        let release = Identity::new("here", "mine");
        let rendered = render(&chart("stowage"), &own, &release, Arc::new(lookup)).unwrap();
        titles(&Manifest::of(&rendered).unwrap()).contains("Namespace/weka-operator-system")
    };
    assert!(with(json!("nobody made it")));
    let of = |release: &str| json!({"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "here"});
    assert!(with(of("mine")));
    for theirs in [Value::Null, json!({}), of("theirs")] {
        assert!(!with(theirs.clone()), "{theirs}");
    }
}

#[test]
fn notes_tell_the_next_step() {
    let notes = rendered("stowage", &json!({})).unwrap().notes;
    assert!(
        notes.contains("--set drivers.hostpath.enabled=true"),
        "{notes}"
    );
    let notes = rendered("stowage", &everything()).unwrap().notes;
    assert!(
        notes.contains("csi-vpsa-keys") && notes.contains("storageClassName: hostpath"),
        "{notes}"
    );
    let notes = rendered("csi-wekafsplugin", &json!({})).unwrap().notes;
    for words in [
        "csi-provisioner, csi-attacher, csi-resizer, csi-snapshotter",
        "component=csi-wekafs-node --container wekafs",
        "liveness-probe                                                csi-sidecar of the same pod",
    ] {
        assert!(notes.contains(words), "{notes}");
    }
}
