//! The manifests of `deploy/weka`: with exactly these rights, and those that every operator has, the work can be done.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use stowage_operator::weka::operator_rules;

use crate::life::{until, with_driver};
use crate::rig::{CLIENTS, ON, Rig, condition, eventually};

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
    rig.delete("wekaclients", CLIENTS, "c").await;
    rig.until_objects(&[]).await;
    eventually("gone", async || {
        rig.client_named("c").await.is_null().then_some(())
    })
    .await;
}
