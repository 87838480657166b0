//! What people get wrong ends in a condition that names the object and the remedy, and touches nothing of others.

use serde_json::{Value, json};

use crate::weka::life::{until, with_driver, with_driver_named};
use crate::weka::rig::{CLIENTS, CSI, ON, Rig, condition, eventually};

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
    clusters_that_go_or_claim_a_name_change_nothing(&rig).await;
}

/// What is there stays as it is: the driver of `lost`, whose cluster goes, and that of `other`, whose name a cluster claims.
async fn clusters_that_go_or_claim_a_name_change_nothing(rig: &Rig) {
    let before = rig.objects().await;
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    rig.patch("wekaclusters", "other", "gone", kept).await;
    rig.delete("wekaclusters", "other", "gone").await;
    let message = until_reason(rig, "lost", "CsiDeployed", "TargetClusterDeleting").await;
    assert!(message.contains("WekaCluster other/gone"), "{message}");

    let metadata = json!({"name": "claims", "namespace": "other"});
    let claim = json!({"csiConfig": {"csiDriverName": "csi.second.weka.io"}});
    rig.create("wekaclusters", json!({"metadata": metadata, "spec": claim}))
        .await;
    let target = json!({"nodeSelector": {"none": "x"}, "targetCluster": {"name": "claims", "namespace": "other"}});
    rig.create_client("claims", target).await;
    for name in ["claims", "other"] {
        let message = until_reason(rig, name, "CsiDeployed", "NameConflict").await;
        for part in ["`csi.second.weka.io`", "weka/claims", "weka/other"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    assert_eq!(rig.objects().await, before);
    let nobody = json!({"metadata": {"finalizers": null}});
    rig.patch("wekaclusters", "other", "gone", nobody).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_drivers_that_would_share_a_controller_are_reported_on_both_and_the_running_one_is_kept()
 {
    let rig = Rig::started(&["a"], ON).await;
    let nowhere = json!({"nodeSelector": {"none": "x"}});
    rig.create_client("plain", nowhere).await;
    rig.until_client("plain", "deployed", |it| {
        it["status"]["csiDeployed"] == true
    })
    .await;
    let before = rig.objects().await;
    let group = json!({"nodeSelector": {"none": "x"}, "csiConfig": {"csiGroup": "weka"}});
    rig.create_client("grouped", group).await;
    for name in ["plain", "grouped"] {
        let message = until_reason(&rig, name, "CsiDeployed", "NameConflict").await;
        for part in [
            "weka/plain",
            "weka/grouped",
            "`weka-csi-controller`",
            "`csi.weka.weka.io`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    assert_eq!(rig.objects().await, before);

    let remedy = json!({"spec": {"csiConfig": {"csiGroup": "second"}}});
    rig.patch("wekaclients", CLIENTS, "grouped", remedy).await;
    for name in ["plain", "grouped"] {
        rig.until_client(name, "deployed", |it| it["status"]["csiDeployed"] == true)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_somebody_else_get_no_rights_and_no_pods() {
    let rig = Rig::started(&["a"], ON).await;
    let accounts = ["weka-csi-controller", "weka-csi-node"];
    for name in accounts {
        let account = json!({"metadata": {"name": name, "namespace": CSI}});
        rig.create("serviceaccounts", account).await;
    }
    rig.create_client("c", json!({})).await;
    let message = until_reason(&rig, "c", "CsiDeployed", "Collision").await;
    for name in accounts {
        let account = format!("ServiceAccount {CSI}/{name}");
        assert!(message.contains(&account), "{message}");
    }
    eventually("its client pod", async || {
        let pod = rig.get("pods", CLIENTS, "c-a").await;
        (!pod.is_null()).then_some(())
    })
    .await;
    let is_theirs = |it: &&String| {
        it.contains("bindings") || it.starts_with("deployments") || it.ends_with("-csi-node")
    };
    let made = rig.objects().await;
    let made: Vec<_> = made.iter().filter(is_theirs).collect();
    assert_eq!(made, Vec::<&String>::new());

    for name in accounts {
        rig.delete("serviceaccounts", CSI, name).await;
    }
    rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
        .await;
    eventually("its node pod", async || {
        let pod = rig.get("pods", CSI, "c-a-csi-node").await;
        (!pod.is_null()).then_some(())
    })
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
    let metadata = json!({"name": "no-pods", "namespace": CLIENTS});
    rig.create(
        "resourcequotas",
        json!({"metadata": metadata, "spec": {"hard": {"pods": "0"}}}),
    )
    .await;
    // The quota is in force when the server has counted: without a controller somebody else must.
    let counted = json!({"hard": {"pods": "0"}, "used": {"pods": "0"}});
    rig.set_status("resourcequotas", CLIENTS, "no-pods", counted)
        .await;
    rig.create_client("c", json!({})).await;
    let message = eventually("explained", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        let pods = condition(&container, "PodsSynced");
        (pods["status"] == "False").then(|| pods["message"].as_str().unwrap().to_owned())
    })
    .await;
    assert!(
        message.contains("Pod weka/c-a") && message.contains("no-pods"),
        "{message}"
    );
    rig.delete("resourcequotas", CLIENTS, "no-pods").await;
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
        condition(it, "ContainersSynced")["reason"] == "NoNodes"
    })
    .await;
    assert!(rig.objects().await.contains("csidrivers csi.bad.weka.io"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_no_node_fits_says_why_and_starts_when_one_does() {
    let rig = Rig::started(&["a"], ON).await;
    rig.create_client("c", json!({"nodeSelector": {"weka": "yes"}}))
        .await;
    let message = until_reason(&rig, "c", "ContainersSynced", "NoNodes").await;
    for part in ["`weka=yes`", "`kubectl label node NAME weka=yes`"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Its driver is there all the same.
    until(&rig, &with_driver(&[])).await;

    // The label alone does not help where a taint keeps it away.
    let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
    let labelled = json!({"metadata": {"labels": {"weka": "yes"}}, "spec": {"taints": taints}});
    rig.patch("nodes", "", "a", labelled).await;
    let client = rig
        .until_client("c", "the taint is named", |it| {
            let message = condition(it, "ContainersSynced")["message"].to_string();
            message.contains("`k:NoSchedule`") && message.contains("`spec.tolerations`")
        })
        .await;
    assert_eq!(condition(&client, "ContainersSynced")["reason"], "NoNodes");
    let tolerated = json!({"spec": {"tolerations": ["k"]}});
    rig.patch("wekaclients", CLIENTS, "c", tolerated).await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    let client = rig
        .until_client("c", "synced", |it| {
            condition(it, "ContainersSynced")["status"] == "True"
        })
        .await;
    assert_eq!(client["status"]["stats"]["containers"]["desired"], 1);

    // One that goes does not miss its nodes.
    rig.attach("volume", "csi.weka.io", "a", "c-a").await;
    rig.delete("wekaclients", CLIENTS, "c").await;
    let client = rig
        .until_client("c", "going", |it| it["status"]["status"] == "Destroying")
        .await;
    assert_eq!(condition(&client, "ContainersSynced")["status"], "True");
    rig.delete("volumeattachments", "", "volume").await;
    rig.until_objects(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_cluster_is_gone_or_going_leaves_nothing_behind() {
    let rig = Rig::started(&["a", "b"], ON).await;
    let clients = [("gone", "a"), ("going", "b")];
    for (name, node) in clients {
        let metadata = json!({"name": name, "namespace": "other"});
        rig.create("wekaclusters", json!({"metadata": metadata, "spec": {}}))
            .await;
        let target = json!({"name": name, "namespace": "other"});
        let selector = json!({"kubernetes.io/hostname": node});
        rig.create_client(
            name,
            json!({"nodeSelector": selector, "targetCluster": target}),
        )
        .await;
    }
    let named =
        |name: &str, node: &str| with_driver_named(&format!("{name}-other"), &[(name, node)]);
    let all: Vec<_> = clients
        .iter()
        .flat_map(|(name, node)| named(name, node))
        .collect();
    until(&rig, &all).await;
    for (name, node) in clients {
        rig.report(CLIENTS, &format!("{name}-{node}"), true).await;
        eventually("labelled", async || {
            (rig.node_labels(node).await.len() == 3).then_some(())
        })
        .await;
        rig.until_client(name, "deployed", |it| it["status"]["csiDeployed"] == true)
            .await;
    }

    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    rig.patch("wekaclusters", "other", "going", kept).await;
    for (name, reason) in [
        ("gone", "TargetClusterMissing"),
        ("going", "TargetClusterDeleting"),
    ] {
        rig.delete("wekaclusters", "other", name).await;
        until_reason(&rig, name, "CsiDeployed", reason).await;
    }
    until(&rig, &all).await;
    for (name, _) in clients {
        rig.delete("wekaclients", CLIENTS, name).await;
    }
    rig.until_objects(&[]).await;
    for (name, node) in clients {
        eventually("gone", async || {
            rig.client_named(name).await.is_null().then_some(())
        })
        .await;
        assert_eq!(rig.node_labels(node).await, Vec::<String>::new());
    }
    let nobody = json!({"metadata": {"finalizers": null}});
    rig.patch("wekaclusters", "other", "going", nobody).await;
}
