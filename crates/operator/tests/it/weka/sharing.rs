//! Several clients, several clusters, one driver or two.

use serde_json::{Value, json};

use crate::weka::life::{client_that_serves, until, with_driver, with_driver_named};
use crate::weka::rig::{CLIENTS, CSI, ON, Rig, eventually};

/// Pins a client to a node.
fn at(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_share_a_driver_and_the_last_one_removes_it() {
    let rig = Rig::started(&["a", "b"], ON).await;
    rig.create_client("first", at("a")).await;
    until(&rig, &with_driver(&[("first", "a")])).await;
    // Older by a second, which is as exact as Kubernetes is.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    rig.create_client("second", at("b")).await;
    until(&rig, &with_driver(&[("first", "a"), ("second", "b")])).await;
    for name in ["first", "second"] {
        let client = rig
            .until_client(name, "deployed", |it| it["status"]["csiDeployed"] == true)
            .await;
        assert_eq!(client["status"]["csi"]["owner"], "weka/first", "{name}");
    }
    let selector = async || {
        let controller = rig.get("deployments", CSI, "weka-csi-controller").await;
        controller["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"].clone()
    };
    assert_eq!(selector().await, "a");

    rig.delete("wekaclients", CLIENTS, "first").await;
    until(&rig, &with_driver(&[("second", "b")])).await;
    eventually("taken over", async || {
        (selector().await == "b").then_some(())
    })
    .await;
    rig.until_client("second", "owner", |it| {
        it["status"]["csi"]["owner"] == "weka/second"
    })
    .await;
    rig.delete("wekaclients", CLIENTS, "second").await;
    rig.until_objects(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_name_removes_what_carried_the_old_one() {
    let rig = client_that_serves().await;
    let pod = rig.get("pods", CLIENTS, "c-a").await;

    rig.patch(
        "wekaclients",
        CLIENTS,
        "c",
        json!({"spec": {"csiConfig": {"csiGroup": "groupName"}}}),
    )
    .await;
    until(&rig, &with_driver_named("group-name", &[("c", "a")])).await;
    rig.until_client("c", "renamed", |it| {
        it["status"]["csi"]["driverName"] == "csi.group-name.weka.io"
    })
    .await;
    eventually("other labels", async || {
        let labels = rig.node_labels("a").await;
        let all_new = labels
            .iter()
            .all(|it| it.starts_with("topology.csi.group-name.weka.io/"));
        (labels.len() == 3 && all_new).then_some(())
    })
    .await;
    let same = rig.get("pods", CLIENTS, "c-a").await;
    assert_eq!(
        same["metadata"]["uid"], pod["metadata"]["uid"],
        "the client goes on"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_toleration_recreates_node_pods_and_nothing_else() {
    let rig = Rig::started(&["a"], ON).await;
    rig.create_client("c", json!({})).await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
        .await;
    let identity = async |plural: &str, namespace: &str, name: &str| {
        let object = rig.get(plural, namespace, name).await;
        (
            object["metadata"]["uid"].clone(),
            object["metadata"]["generation"].clone(),
        )
    };
    let controller = identity("deployments", CSI, "weka-csi-controller").await;
    let client_pod = identity("pods", CLIENTS, "c-a").await;
    let node_pod = identity("pods", CSI, "c-a-csi-node").await;
    let tolerations = json!([{"key": "x", "operator": "Exists"}]);
    let advanced = json!({"csiConfig": {"advanced": {"nodeTolerations": tolerations}}});
    rig.patch("wekaclients", CLIENTS, "c", json!({"spec": advanced}))
        .await;
    eventually("another node pod", async || {
        let pod = rig.get("pods", CSI, "c-a-csi-node").await;
        let has = pod["spec"]["tolerations"].to_string().contains("\"x\"");
        (has && pod["metadata"]["uid"] != node_pod.0).then_some(())
    })
    .await;
    until(&rig, &with_driver(&[("c", "a")])).await;
    assert_eq!(
        identity("deployments", CSI, "weka-csi-controller").await,
        controller
    );
    assert_eq!(identity("pods", CLIENTS, "c-a").await, client_pod);

    // Another image of the plugin: controller and node pods, not the client.
    let node_pod = identity("pods", CSI, "c-a-csi-node").await;
    rig.configure(
        "csi: {installationEnabled: true, image: 'mine:v1', livenessProbeImage: 'probe:v2'}",
    );
    eventually("another controller", async || {
        let now = identity("deployments", CSI, "weka-csi-controller").await;
        (now.0 == controller.0 && now.1 != controller.1).then_some(())
    })
    .await;
    eventually("the old node pod is gone", async || {
        (identity("pods", CSI, "c-a-csi-node").await.0 != node_pod.0).then_some(())
    })
    .await;
    assert_eq!(identity("pods", CLIENTS, "c-a").await, client_pod);
    // A node pod with another project's plugin needs a token, which nobody makes here; ours needs none.
    let all = with_driver(&[("c", "a")]);
    let without: Vec<_> = all
        .iter()
        .filter(|it| *it != "pods c-a-csi-node")
        .cloned()
        .collect();
    until(&rig, &without).await;
    rig.configure("{csi: {installationEnabled: true}, defaultImages: {sidecarImage: 'mine:v2'}}");
    until(&rig, &all).await;
    for (plural, name) in [
        ("deployments", "weka-csi-controller"),
        ("pods", "c-a-csi-node"),
    ] {
        eventually(name, async || {
            let object = rig.get(plural, CSI, name).await;
            object["spec"]
                .to_string()
                .contains("\"mine:v2\"")
                .then_some(())
        })
        .await;
    }
    until(&rig, &all).await;
    assert_eq!(identity("pods", CLIENTS, "c-a").await, client_pod);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_share_a_driver_only_when_both_name_it() {
    let rig = Rig::started(&["a", "b"], ON).await;
    for name in ["one", "two"] {
        let metadata = json!({"name": name, "namespace": "other"});
        rig.create(
            "wekaclusters",
            json!({"metadata": metadata, "spec": {"image": "x:1.2.3"}}),
        )
        .await;
        let mut spec = at(if name == "one" { "a" } else { "b" });
        spec["targetCluster"] = json!({"name": name, "namespace": "other"});
        rig.create_client(name, spec).await;
    }
    let two_drivers: Vec<_> = with_driver_named("one-other", &[("one", "a")])
        .into_iter()
        .chain(with_driver_named("two-other", &[("two", "b")]))
        .collect();
    until(&rig, &two_drivers).await;
    let driver_of = |name: &str| format!("csi.{name}-other.weka.io");
    for name in ["one", "two"] {
        let client = rig
            .until_client(name, "deployed", |it| it["status"]["csiDeployed"] == true)
            .await;
        assert_eq!(client["status"]["csi"]["driverName"], driver_of(name));
        let class = client["status"]["csi"]["storageClasses"][0]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            class,
            format!("storageclass-csi-{name}-other-weka-io-default")
        );
        let class = rig.get("storageclasses", "", &class).await;
        let parameters = &class["parameters"];
        assert_eq!(
            parameters["csi.storage.k8s.io/provisioner-secret-name"],
            format!("weka-csi-{name}")
        );
        assert_eq!(
            parameters["csi.storage.k8s.io/provisioner-secret-namespace"],
            "other"
        );
    }
    let one_driver = with_driver(&[("one", "a"), ("two", "b")]);
    let name_it = async |cluster: &str, name: Value| {
        let named = json!({"spec": {"csiConfig": {"csiDriverName": name}}});
        rig.patch("wekaclusters", "other", cluster, named).await;
    };
    for name in ["one", "two"] {
        name_it(name, json!("csi.weka.io")).await;
    }
    until(&rig, &one_driver).await;
    for name in ["one", "two"] {
        rig.until_client(name, "shared", |it| {
            it["status"]["csi"]["driverName"] == "csi.weka.io"
        })
        .await;
    }
    // Apart again: what the first keeps is untouched.
    name_it("two", Value::Null).await;
    let apart: Vec<_> = with_driver(&[("one", "a")])
        .into_iter()
        .chain(with_driver_named("two-other", &[("two", "b")]))
        .collect();
    until(&rig, &apart).await;
    rig.delete("wekaclients", CLIENTS, "two").await;
    until(&rig, &with_driver(&[("one", "a")])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_joins_where_the_backends_of_its_cluster_are() {
    let rig = Rig::started(&["a"], ON).await;
    let metadata = json!({"name": "prod", "namespace": "other"});
    rig.create("wekaclusters", json!({"metadata": metadata, "spec": {}}))
        .await;
    let target = json!({"targetCluster": {"name": "prod", "namespace": "other"}});
    rig.create_client("c", target).await;
    rig.until_client("c", "deployed", |it| it["status"]["csiDeployed"] == true)
        .await;

    // A backend appears, as the cluster's own operator makes it.
    let uid = rig.get("wekaclusters", "other", "prod").await["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaCluster", "name": "prod", "uid": uid});
    let metadata = json!({"name": "drive-0", "namespace": "other", "ownerReferences": [owner]});
    let spec = json!({"image": "weka:4.4.5", "mode": "drive", "name": "drive0", "numCores": 1, "port": 14000});
    rig.create(
        "wekacontainers",
        json!({"metadata": metadata, "spec": spec}),
    )
    .await;
    let runs = json!({"status": "Running", "managementIPs": ["10.0.0.9"]});
    rig.set_status("wekacontainers", "other", "drive-0", runs)
        .await;
    eventually("joined", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        (container["spec"]["joinIpPorts"] == json!(["10.0.0.9:14000"])).then_some(())
    })
    .await;
    // What is the cluster's is the cluster's.
    let backend = rig.get("wekacontainers", "other", "drive-0").await;
    assert!(backend["metadata"]["finalizers"].is_null(), "{backend}");
}
