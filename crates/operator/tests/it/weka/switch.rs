//! The switch, and what is true at rest.

use std::time::Duration;

use serde_json::{Value, json};

use crate::weka::life::{client_that_serves, until, with_driver};
use crate::weka::rig::{CLIENTS, CSI, ON, Rig, condition, eventually};

const OFF: &str = "csi: {installationEnabled: false}";

/// With what a site adds, where the server fills in defaults.
const SITE: &str = "
csi:
  installationEnabled: true
  extra:
    args: [--more]
    env: [{name: NODE_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]
    volumes: [{name: site, hostPath: {path: /site}}]
    volumeMounts: [{name: site, mountPath: /site}]
  resources:
    controller: {wekafs: {limits: {cpu: '1', memory: 1Gi}}}
    node: {csi-sidecar: {requests: {cpu: 0.01}}}
wekaClients:
  readinessProbe: {httpGet: {path: /readyz, port: 14150}}
  extra: {env: [{name: NODE_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn off_removes_everything_and_on_brings_it_back() {
    let rig = client_that_serves().await;
    bind_volume(&rig).await;
    rig.attach("volume", "csi.weka.io", "a", "c-a").await;
    let before = volumes(&rig).await;

    rig.configure(OFF);
    rig.until_objects(&["pods c-a", "wekacontainers c-a"]).await;
    let client = rig
        .until_client("c", "reset", |it| {
            it["status"]["csiDeployed"] == false && it["status"]["csi"].is_null()
        })
        .await;
    assert_eq!(condition(&client, "CsiDeployed")["reason"], "Disabled");
    eventually("no labels", async || {
        rig.node_labels("a").await.is_empty().then_some(())
    })
    .await;
    assert_eq!(volumes(&rig).await, before, "volumes are untouched");

    rig.configure(ON);
    until(&rig, &with_driver(&[("c", "a")])).await;
    rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
        .await;
    eventually("labelled", async || {
        (rig.node_labels("a").await.len() == 3).then_some(())
    })
    .await;
    assert_eq!(volumes(&rig).await, before, "volumes are untouched");
}

/// A volume `volume` of the driver, and a claim `claim` that has it.
async fn bind_volume(rig: &Rig) {
    let class = "storageclass-csi-weka-io-default";
    let handle = "dir/v1/default/csi-volumes/x";
    rig.create(
        "persistentvolumes",
        json!({"metadata": {"name": "volume"}, "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": "claim", "namespace": "other"},
            "csi": {"driver": "csi.weka.io", "volumeHandle": handle},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": class,
        }}),
    )
    .await;
    rig.create(
        "persistentvolumeclaims",
        json!({"metadata": {"name": "claim", "namespace": "other"}, "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class,
            "volumeName": "volume",
        }}),
    )
    .await;
}

/// What stands for a volume, in the versions that the server has.
async fn volumes(rig: &Rig) -> Vec<Value> {
    let mut all = Vec::new();
    for (plural, namespace, name) in [
        ("persistentvolumes", "", "volume"),
        ("persistentvolumeclaims", "other", "claim"),
        ("volumeattachments", "", "volume"),
    ] {
        let object = rig.get(plural, namespace, name).await;
        assert!(!object.is_null(), "{plural} {name}");
        let metadata = &object["metadata"];
        assert!(metadata["deletionTimestamp"].is_null(), "{object}");
        all.push(json!({
            "uid": metadata["uid"], "version": metadata["resourceVersion"], "spec": object["spec"],
        }));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_configuration_take_effect_while_it_runs() {
    let rig = Rig::started(&["a"], OFF).await;
    rig.create_client("c", json!({})).await;
    rig.until_objects(&["pods c-a", "wekacontainers c-a"]).await;
    rig.configure("{csi: {installationEnabled: true, namespace: other, namingScheme: released, storageClasses: [{filesystem: fs}]}}");
    rig.until_client("c", "deployed", |it| {
        let status = &it["status"];
        status["csi"]["controller"] == "other/csi-weka-csi-controller"
            && status["csiDeployed"] == true
    })
    .await;
    eventually("the node pod", async || {
        let pod = rig.get("pods", "other", "c-a-csi-node").await;
        (!pod.is_null()).then_some(())
    })
    .await;
    let objects = rig.objects().await;
    assert!(
        objects.contains("storageclasses weka-csi-fs"),
        "{objects:#?}"
    );
    // Another namespace: nothing stays in the old one.
    rig.configure(ON);
    until(&rig, &with_driver(&[("c", "a")])).await;
    for (plural, name) in [
        ("deployments", "weka-csi-controller"),
        ("pods", "c-a-csi-node"),
    ] {
        eventually(name, async || {
            let is_gone = rig.get(plural, "other", name).await.is_null();
            let is_there = !rig.get(plural, CSI, name).await.is_null();
            (is_gone && is_there).then_some(())
        })
        .await;
    }
    every_value_of_the_driver_is_followed(&rig).await;
}

/// Classes, replicas, log level and the version that is reported change and change back.
async fn every_value_of_the_driver_is_followed(rig: &Rig) {
    let values = "storageClassCreationDisabled: true, controllerReplicas: 3, logLevel: 7, driverVersion: v9.9.9";
    let is_set = |controller: &Value, status: &Value, has_classes: bool| {
        let spec = &controller["spec"];
        let plugin = &spec["template"]["spec"]["containers"][0];
        (
            spec["replicas"] == 3,
            plugin.to_string().contains("--v=7"),
            status["csi"]["driverVersion"] == "v9.9.9",
            has_classes,
        )
    };
    for (config, expected) in [
        (
            format!("csi: {{installationEnabled: true, {values}}}"),
            (true, true, true, false),
        ),
        (ON.to_owned(), (false, false, false, true)),
    ] {
        rig.configure(&config);
        eventually(&config, async || {
            let controller = rig.get("deployments", CSI, "weka-csi-controller").await;
            let status = rig.client_named("c").await["status"].clone();
            let objects = rig.objects().await;
            let has_classes = objects.iter().any(|it| it.starts_with("storageclasses"));
            (is_set(&controller, &status, has_classes) == expected).then_some(())
        })
        .await;
    }
    until(rig, &with_driver(&[("c", "a")])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_at_rest_and_changes_are_noticed() {
    let rig = Rig::started(&["a", "b"], SITE).await;
    rig.create_client("c", json!({})).await;
    until(&rig, &with_driver(&[("c", "a"), ("c", "b")])).await;
    for node in ["a", "b"] {
        rig.report(CLIENTS, &format!("c-{node}"), true).await;
        rig.report(CSI, &format!("c-{node}-csi-node"), true).await;
    }
    rig.until_client("c", "ready", |it| it["status"]["csi"]["nodes"] == "2/2")
        .await;
    // The last writes may be under way, on a machine that does much else; what writes again and again is never calm. A read
    // is a watch that begins anew, or a look for a kind that this server lacks.
    eventually("three seconds without a write", async || {
        let (writes, reads) = (rig.writes(), rig.reads());
        tokio::time::sleep(Duration::from_secs(3)).await;
        (rig.writes() == writes && rig.reads() <= reads + 1).then_some(())
    })
    .await;

    // After a restart neither: it looks at everything, and makes what is missing.
    rig.kill().await;
    rig.delete("csidrivers", "", "csi.weka.io").await;
    rig.start(i64::MAX).await;
    eventually("the CSIDriver is back", async || {
        let driver = rig.get("csidrivers", "", "csi.weka.io").await;
        (!driver.is_null()).then_some(())
    })
    .await;
    eventually("nothing is left to write", async || {
        let writes = rig.writes();
        tokio::time::sleep(Duration::from_millis(500)).await;
        (rig.writes() == writes).then_some(())
    })
    .await;
    assert_eq!(rig.writes(), 1, "and nothing else is written");

    for (plural, namespace, name) in [
        ("csidrivers", "", "csi.weka.io"),
        ("storageclasses", "", "storageclass-csi-weka-io-default"),
        ("deployments", CSI, "weka-csi-controller"),
        ("pods", CSI, "c-a-csi-node"),
    ] {
        let uid = rig.get(plural, namespace, name).await["metadata"]["uid"].clone();
        rig.delete(plural, namespace, name).await;
        // Nobody polls, as was seen: it has noticed. `./x bench weka-operator` holds it to the two seconds that are promised.
        eventually(name, async || {
            let found = rig.get(plural, namespace, name).await;
            (!found.is_null() && found["metadata"]["uid"] != uid).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_is_missed_by_name_and_noticed_when_it_appears() {
    let rig = Rig::started(&["a"], ON).await;
    rig.create_client("c", json!({"csiConfig": {"csiGroup": "groupName"}}))
        .await;
    let secret = |client: &Value| condition(client, "CsiSecretFound");
    let client = rig
        .until_client("c", "missed", |it| secret(it)["reason"] == "SecretMissing")
        .await;
    let message = secret(&client)["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("`weka-csi-group-name`") && message.contains("`weka`"),
        "{message}"
    );
    let metadata = json!({"name": "weka-csi-group-name", "namespace": CLIENTS});
    let data = json!({"username": "u", "password": "p", "scheme": "https"});
    rig.create("secrets", json!({"metadata": metadata, "stringData": data}))
        .await;
    let client = rig
        .until_client("c", "incomplete", |it| {
            secret(it)["reason"] == "SecretIncomplete"
        })
        .await;
    assert!(
        secret(&client)["message"]
            .as_str()
            .unwrap()
            .contains("lacks endpoints")
    );
    let endpoints = json!({"stringData": {"endpoints": "10.0.0.1:14000"}});
    rig.patch("secrets", CLIENTS, "weka-csi-group-name", endpoints)
        .await;
    rig.until_client("c", "found", |it| secret(it)["status"] == "True")
        .await;
}
