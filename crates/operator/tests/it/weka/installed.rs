//! The manifests of `deploy/weka`: with exactly these rights, and those that every operator has, the work can be done.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use stowage_operator::weka::operator_rules;

use crate::weka::life::{until, with_driver};
use crate::weka::rig::{CLIENTS, ON, Rig, condition, eventually};

/// The namespace of the samples.
const SAMPLES: &str = "weka-clients";

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// Of the chart, from which the manifests of `deploy/` are written (`./x check --fix`).
#[test]
fn the_operators_rules_are_those_of_the_code() {
    let rules = json!(operator_rules());
    let path = deploy("../charts/stowage/files/weka-rules.yaml");
    if std::env::var_os("STOWAGE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, serde_saphyr::to_string(&rules).unwrap()).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let committed: Value = serde_saphyr::from_str(&committed).unwrap();
    assert_eq!(committed, rules);
    assert!(!rules.to_string().contains("secrets"), "only by a Role");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_manifests_are_enough_and_those_for_secrets_are_named_when_missing() {
    let rig = Rig::new(&["a"], ON).await;
    rig.install(&[
        "prerequisites/02-namespace.yaml",
        "prerequisites/03-service-account.yaml",
        "prerequisites/04-rules.yaml",
        "prerequisites/05-bindings.yaml",
    ]);
    rig.start_as("csi-operator:csi-operator").await;
    rig.create_client("c", json!({})).await;
    // Where Weka's own operator takes care of clients, nobody gives this one the right to see them.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.objects().await.is_empty());
    assert!(rig.client_named("c").await["metadata"]["finalizers"].is_null());
    rig.install(&["weka/rules.yaml", "weka/binding.yaml"]);
    // Nobody can grant what they do not have.
    let all = with_driver(&[("c", "a")]);
    let without = all.iter().filter(|it| !it.ends_with("-secrets"));
    until(&rig, &without.cloned().collect::<Vec<_>>()).await;
    rig.report(CLIENTS, "c-a", true).await;
    eventually("labelled", async || {
        (rig.node_labels("a").await.len() == 3).then_some(())
    })
    .await;
    let secret = |client: &Value| condition(client, "CsiSecretFound");
    let client = rig
        .until_client("c", "forbidden", |it| {
            secret(it)["reason"] == "SecretForbidden"
        })
        .await;
    let message = secret(&client)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("deploy/weka/secrets.yaml"), "{message}");

    let role = fs::read_to_string(deploy("weka/secrets.yaml")).unwrap();
    rig.apply(
        &role
            .replace("namespace: weka-clients", "namespace: weka")
            .replace("weka-csi-NAME", "weka-csi-csi"),
    );
    rig.until_client("c", "seen", |it| secret(it)["reason"] == "SecretMissing")
        .await;
    until(&rig, &all).await;
    // With them it keeps a key of its own, and no other.
    let key = rig.get("secrets", "csi-operator", "csi-operator-mounts-key");
    assert!(!key.await.is_null());
    let operator = "--as=system:serviceaccount:csi-operator:csi-operator";
    for verb in ["list", "update", "delete"] {
        let words = [
            "auth",
            "can-i",
            verb,
            "secrets",
            "-n",
            "csi-operator",
            operator,
        ];
        assert!(rig.try_kubectl(&words).is_err(), "{verb}");
    }
    // Of the secrets elsewhere it sees those that a Role names, and no others.
    for verb in ["get", "list", "watch"] {
        let may = |rest: &[&str]| {
            let words = [&["auth", "can-i", verb][..], rest, &[operator][..]].concat();
            rig.try_kubectl(&words).is_ok()
        };
        assert!(may(&["secrets/weka-csi-csi", "-n", CLIENTS]), "{verb}");
        assert!(!may(&["secrets", "-n", CLIENTS]), "{verb}");
        assert!(!may(&["secrets/weka-csi-csi", "-n", "other"]), "{verb}");
        assert!(!may(&["secrets", "-n", "other"]), "{verb}");
        assert!(!may(&["secrets", "--all-namespaces"]), "{verb}");
    }
    rig.delete("wekaclients", CLIENTS, "c").await;
    rig.until_objects(&[]).await;
    eventually("gone", async || {
        rig.client_named("c").await.is_null().then_some(())
    })
    .await;
}

/// Waits until these clients of the samples have these drivers, and there is no other driver.
async fn until_drivers(rig: &Rig, expected: &[(&str, &str)]) {
    for (client, driver) in expected {
        eventually(&format!("{client}: {driver}"), async || {
            let client = rig.get("wekaclients", SAMPLES, client).await;
            let status = &client["status"];
            (status["csi"]["driverName"] == *driver && status["csiDeployed"] == true).then_some(())
        })
        .await;
    }
    let drivers = expected.iter().map(|(_, it)| format!("csidrivers {it}"));
    let drivers: BTreeSet<_> = drivers.collect();
    eventually(&format!("{drivers:?}"), async || {
        let objects = rig.objects().await.into_iter();
        let found = objects.filter(|it| it.starts_with("csidrivers "));
        (found.collect::<BTreeSet<_>>() == drivers).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_give_clients_the_drivers_that_they_promise() {
    let rig = Rig::started(&["a", "b"], ON).await;
    rig.create("namespaces", json!({"metadata": {"name": SAMPLES}}))
        .await;
    let account = json!({"metadata": {"name": "default", "namespace": SAMPLES}});
    rig.create("serviceaccounts", account).await;
    for (node, label, value) in [
        ("a", "weka.io/supports-clients", "true"),
        ("b", "example.com/weka-cluster", "second"),
    ] {
        let labels = json!({"metadata": {"labels": {label: value}}});
        rig.patch("nodes", "", node, labels).await;
    }
    let apply = |sample: &str, driver: &str| {
        let sample = format!("samples/{sample}");
        let text = fs::read_to_string(deploy(&sample)).unwrap();
        assert!(text.contains(driver), "{sample}: {driver}");
        rig.install(&[&sample]);
    };
    let second = ("clients-second", "csi.second-cluster.weka.io");

    apply("weka-client.yaml", "csi.weka.io");
    apply("weka-client-second-cluster.yaml", second.1);
    until_drivers(&rig, &[("clients", "csi.weka.io"), second]).await;
    for container in ["clients-a", "clients-second-b"] {
        eventually(container, async || {
            let container = rig.get("wekacontainers", SAMPLES, container).await;
            (!container.is_null()).then_some(())
        })
        .await;
    }

    // With a target cluster, which its own operator takes care of.
    let cluster = json!({"metadata": {"name": "prod", "namespace": "default"}, "spec": {}});
    rig.create("wekaclusters", cluster).await;
    apply(
        "weka-client-target-cluster.yaml",
        "csi.prod-default.weka.io",
    );
    until_drivers(&rig, &[("clients", "csi.prod-default.weka.io"), second]).await;
    apply("weka-migration.yaml", "csi.weka.io");
    until_drivers(&rig, &[("clients", "csi.weka.io"), second]).await;
}
