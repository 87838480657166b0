//! Nodes that register with a taint until they have the driver.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::reconcile::rig::{example, resource};
use crate::reconcile::running::{Running, eventually, instances, synced};

const TAINT: &str = "startup.example/driver";

fn nodes(running: &Running) -> Api<DynamicObject> {
    let nodes = resource("", "v1", "Node", "nodes");
    Api::all_with(running.client.clone(), &nodes)
}

/// A node as its kubelet registers it, with another taint beside ours.
async fn register(running: &Running, name: &str) {
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let taints = [taint(TAINT), taint("somebody.else/s")];
    let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
    let node = serde_json::from_value(node).unwrap();
    let created = nodes(running).create(&PostParams::default(), &node).await;
    created.unwrap();
}

/// The kubelet of a node gets to know a driver.
async fn plug_in(running: &Running, node: &str, driver: &str) {
    let known = json!({
        "metadata": {"name": node}, "spec": {"drivers": [{"name": driver, "nodeID": node}]},
    });
    let csi_nodes = resource("storage.k8s.io", "v1", "CSINode", "csinodes");
    let csi_nodes = Api::<DynamicObject>::all_with(running.client.clone(), &csi_nodes);
    let known = serde_json::from_value(known).unwrap();
    let created = csi_nodes.create(&PostParams::default(), &known).await;
    created.unwrap();
}

/// Keys of the taints of a node, but for those that the server itself sets.
async fn taints(running: &Running, node: &str) -> Vec<String> {
    let node = nodes(running).get(node).await.unwrap();
    let taints = node.data["spec"]["taints"].as_array().into_iter().flatten();
    let keys = taints.map(|taint| taint["key"].as_str().unwrap().to_owned());
    keys.filter(|key| !key.starts_with("node.kubernetes.io/"))
        .collect()
}

async fn until_admitted(running: &Running, node: &str) {
    eventually("pods may come", async || {
        let left = taints(running, node).await;
        (left == ["somebody.else/s"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_loses_its_taint_when_it_has_the_driver_and_not_before() {
    let running = Running::start().await;
    register(&running, "before").await;
    register(&running, "other").await;
    let mut instance = example("default");
    instance["spec"]["startupTaint"] = json!(TAINT);
    running.create(instance).await;
    synced(&running.client, "hostpath").await;
    plug_in(&running, "other", "other.example").await;

    plug_in(&running, "before", "default.example").await;
    until_admitted(&running, "before").await;
    // Its kubelet may be quicker than its node.
    plug_in(&running, "after", "default.example").await;
    register(&running, "after").await;
    until_admitted(&running, "after").await;
    let waits = taints(&running, "other").await;
    assert_eq!(waits, [TAINT, "somebody.else/s"], "it has another driver");

    // While a volume keeps the driver, new nodes get it, and pods come only where it is.
    let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
    let volumes = Api::<DynamicObject>::all_with(running.client.clone(), &volumes);
    let volume = json!({
        "metadata": {"name": "kept"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "default.example", "volumeHandle": "kept"},
        },
    });
    let volume = serde_json::from_value(volume).unwrap();
    let created = volumes.create(&PostParams::default(), &volume).await;
    created.unwrap();
    let deletion = DeleteParams::default();
    let instances = instances(&running.client);
    instances.delete("hostpath", &deletion).await.unwrap();
    eventually("it is held", async || {
        let instance = instances.get("hostpath").await.unwrap();
        (instance.data["status"]["state"] == "Removed").then_some(())
    })
    .await;
    register(&running, "late").await;
    plug_in(&running, "late", "default.example").await;
    until_admitted(&running, "late").await;
    let waits = taints(&running, "other").await;
    assert_eq!(waits, [TAINT, "somebody.else/s"], "it has no driver yet");

    // Nobody else would do it when the driver is gone.
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let freed = volumes.patch("kept", &PatchParams::default(), &free).await;
    freed.unwrap();
    volumes.delete("kept", &deletion).await.unwrap();
    until_admitted(&running, "other").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_nodes_lose_their_taint_also_while_the_instance_is_left_as_it_is() {
    let running = Running::start().await;
    let mut instance = example("default");
    instance["spec"]["startupTaint"] = json!(TAINT);
    running.create(instance).await;
    synced(&running.client, "hostpath").await;
    let instances = instances(&running.client);
    let is_wrong = |it: &DynamicObject| {
        let conditions = it.data["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["reason"] == "Invalid")
    };
    for (node, edit) in [
        ("wrong", json!({"driverSocket": "/csi.sock"})),
        ("unmanaged", json!({"managementState": "Unmanaged"})),
    ] {
        let edit = Patch::Merge(json!({"spec": edit}));
        let nothing = PatchParams::default();
        let edited = instances.patch("hostpath", &nothing, &edit).await;
        edited.unwrap();
        eventually("it is left as it is", async || {
            let instance = instances.get("hostpath").await.unwrap();
            let is_unmanaged = instance.data["status"]["state"] == "Unmanaged";
            (is_unmanaged || (node == "wrong" && is_wrong(&instance))).then_some(())
        })
        .await;
        register(&running, node).await;
        plug_in(&running, node, "default.example").await;
        until_admitted(&running, node).await;
    }
    running.stop().await;
}
