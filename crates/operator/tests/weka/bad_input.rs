//! What people get wrong ends in a condition that names the object and the remedy, and touches nothing of others.

use serde_json::{Value, json};

use crate::rig::{CLIENTS, ON, Rig, condition, eventually};

async fn until_reason(rig: &Rig, client: &str, about: &str, reason: &str) -> String {
    let client = rig
        .until_client(client, reason, |it| {
            condition(it, about)["reason"] == reason
        })
        .await;
    assert_eq!(condition(&client, about)["status"], "False");
    if about == "CsiDeployed" {
        assert_eq!(client["status"]["csiDeployed"], false);
    }
    condition(&client, about)["message"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_clusters_that_do_not_fit_are_reported_and_nothing_is_made() {
    let rig = Rig::started(&["a"], ON).await;
    let group =
        |group: &str| json!({"nodeSelector": {"none": "x"}, "csiConfig": {"csiGroup": group}});
    rig.create_client("long", group(&"g".repeat(60))).await;
    rig.create_client("one", group("groupName")).await;
    rig.create_client("other", group("group-name")).await;
    let target = json!({"nodeSelector": {"none": "x"}, "targetCluster": {"name": "gone", "namespace": "other"}});
    rig.create_client("lost", target).await;
    rig.create_client("latest", json!({"image": "weka:latest"}))
        .await;

    let message = until_reason(&rig, "long", "CsiDeployed", "NameInvalid").await;
    assert!(message.contains("csiGroup"), "{message}");
    for name in ["one", "other"] {
        // The first was alone for a moment.
        let message = until_reason(&rig, name, "CsiDeployed", "NameConflict").await;
        assert!(
            message.contains("weka/one") && message.contains("weka/other"),
            "{message}"
        );
    }
    let message = until_reason(&rig, "lost", "CsiDeployed", "TargetClusterMissing").await;
    assert!(message.contains("WekaCluster other/gone"), "{message}");
    let message = until_reason(&rig, "latest", "ContainersSynced", "Invalid").await;
    assert!(message.contains("`weka:latest`"), "{message}");
    assert!(
        !rig.objects()
            .await
            .iter()
            .any(|it| it.contains("long") || it.contains("gone"))
    );

    // The remedies help.
    rig.patch(
        "wekaclients",
        CLIENTS,
        "other",
        json!({"spec": {"csiConfig": {"csiGroup": "second"}}}),
    )
    .await;
    for name in ["one", "other"] {
        rig.until_client(name, "deployed", |it| it["status"]["csiDeployed"] == true)
            .await;
    }
    let metadata = json!({"name": "gone", "namespace": "other"});
    rig.create("wekaclusters", json!({"metadata": metadata, "spec": {}}))
        .await;
    rig.until_client("lost", "deployed", |it| it["status"]["csiDeployed"] == true)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_somebody_else_is_named_and_untouched() {
    let rig = Rig::started(&["a"], ON).await;
    let class = "storageclass-csi-weka-io-default";
    let foreign = json!({"metadata": {"name": class}, "provisioner": "theirs"});
    rig.create("storageclasses", foreign).await;
    rig.create_client("c", json!({})).await;
    let message = until_reason(&rig, "c", "CsiDeployed", "Collision").await;
    assert!(
        message.contains(&format!("StorageClass {class}")),
        "{message}"
    );
    assert_eq!(
        rig.get("storageclasses", "", class).await["provisioner"],
        "theirs"
    );
    // The driver itself works: only that class is not ours.
    let client = rig.client_named("c").await;
    assert_eq!(client["status"]["csi"]["driverName"], "csi.weka.io");
    assert_eq!(client["status"]["csiDeployed"], false);
    rig.delete("storageclasses", "", class).await;
    rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
        .await;

    // A separately installed plugin of the same name: no node pod of ours takes its place.
    let driver: Value =
        json!({"metadata": {"name": "csi.theirs.weka.io"}, "spec": {"attachRequired": true}});
    rig.create("csidrivers", driver).await;
    rig.create_client("d", json!({"csiConfig": {"csiGroup": "theirs"}}))
        .await;
    let message = until_reason(&rig, "d", "CsiDeployed", "Collision").await;
    assert!(
        message.contains("CSIDriver csi.theirs.weka.io"),
        "{message}"
    );
    let container = eventually("its container", async || {
        let container = rig.get("wekacontainers", CLIENTS, "d-a").await;
        (!container.is_null()).then_some(container)
    })
    .await;
    assert_eq!(container["spec"]["csiDriverName"], Value::Null);
    assert!(!rig.objects().await.contains("pods d-a-csi-node"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_refused_is_explained_on_its_container() {
    let rig = Rig::started(&["a"], ON).await;
    let metadata = json!({"name": "none", "namespace": CLIENTS});
    rig.create(
        "resourcequotas",
        json!({"metadata": metadata, "spec": {"hard": {"pods": "0"}}}),
    )
    .await;
    // The quota is in force when the server has counted: without a controller somebody else must.
    let counted = json!({"hard": {"pods": "0"}, "used": {"pods": "0"}});
    rig.set_status("resourcequotas", CLIENTS, "none", counted)
        .await;
    rig.create_client("c", json!({})).await;
    let message = eventually("explained", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        let pods = condition(&container, "PodsSynced");
        (pods["status"] == "False").then(|| pods["message"].as_str().unwrap().to_owned())
    })
    .await;
    assert!(
        message.contains("Pod weka/c-a") && message.contains("quota"),
        "{message}"
    );
    rig.delete("resourcequotas", CLIENTS, "none").await;
    eventually("made", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        let is_there = !rig.get("pods", CLIENTS, "c-a").await.is_null();
        (is_there && condition(&container, "PodsSynced").is_null()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_be_read_says_so_and_holds_nobody_up_but_itself() {
    let rig = Rig::started(&["a"], ON).await;
    let group =
        |group: &str| json!({"nodeSelector": {"none": "x"}, "csiConfig": {"csiGroup": group}});
    for name in ["bad", "good"] {
        rig.create_client(name, group(name)).await;
        rig.until_client(name, "deployed", |it| it["status"]["csiDeployed"] == true)
            .await;
    }
    // A definition of another release, which lets everything through.
    let anything = r#"[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value":
        {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}]"#;
    let definition = "customresourcedefinition/wekaclients.weka.weka.io";
    rig.kubectl(&["patch", definition, "--type=json", "-p", anything]);
    let odd = json!({"spec": {"coresNum": "many"}});
    eventually("taken", async || {
        let patch = serde_json::to_string(&odd).unwrap();
        let arguments = [
            "-n",
            CLIENTS,
            "patch",
            "wekaclient/bad",
            "--type=merge",
            "-p",
            &patch,
        ];
        rig.try_kubectl(&arguments).ok()
    })
    .await;

    let message = until_reason(&rig, "bad", "ContainersSynced", "Unreadable").await;
    assert!(message.contains("many"), "{message}");
    rig.delete("wekaclients", CLIENTS, "good").await;
    eventually("the other driver goes", async || {
        let objects = rig.objects().await;
        (!objects.iter().any(|it| it.contains("good"))).then_some(())
    })
    .await;
    assert!(rig.objects().await.contains("csidrivers csi.bad.weka.io"));
    // Its own is held, also by an operator that starts now.
    rig.kill().await;
    rig.start(i64::MAX).await;
    rig.patch(
        "wekaclients",
        CLIENTS,
        "bad",
        json!({"spec": {"coresNum": 1}}),
    )
    .await;
    rig.until_client("bad", "read again", |it| {
        condition(it, "ContainersSynced")["status"] == "True"
    })
    .await;
    assert!(rig.objects().await.contains("csidrivers csi.bad.weka.io"));
}
