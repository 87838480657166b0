//! Clients that stop to serve, and who is told.

use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::weka::life::{client_that_serves, until, with_driver, with_driver_named};
use crate::weka::rig::{CLIENTS, CSI, ON, Rig, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn labels_follow_the_clients_health_with_patience() {
    let rig = client_that_serves().await;
    // It has not served for longer than anybody waits.
    rig.report(CLIENTS, "c-a", false).await;
    eventually("no labels", async || {
        rig.node_labels("a").await.is_empty().then_some(())
    })
    .await;
    eventually("unhealthy", async || {
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        (container["status"]["status"] == "Unhealthy").then_some(())
    })
    .await;
    // What is there stays: volumes that are mounted must be unmounted.
    until(&rig, &with_driver(&[("c", "a")])).await;
    rig.report(CLIENTS, "c-a", true).await;
    eventually("labelled", async || {
        (rig.node_labels("a").await.len() == 3).then_some(())
    })
    .await;
}

/// A pod as the Deployment's controller and the scheduler would make it: neither runs here.
async fn controller_on(rig: &Rig, name: &str, node: &str) {
    let controller = rig.get("deployments", CSI, "weka-csi-controller").await;
    let labels = &controller["spec"]["template"]["metadata"]["labels"];
    let pod = json!({
        "metadata": {"name": name, "namespace": CSI, "labels": labels},
        "spec": {
            "nodeName": node, "serviceAccountName": "weka-csi-controller",
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "x:1"}],
        },
    });
    rig.create("pods", pod).await;
}

/// The sets of objects before and after are exact.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_leaves_a_node_whose_client_does_not_serve_for_one_whose_client_does() {
    let rig = Rig::started(&["a", "b"], ON).await;
    rig.create_client("c", json!({})).await;
    let all = with_driver(&[("c", "a"), ("c", "b")]);
    until(&rig, &all).await;
    for (pod, node) in [("c-a", "a"), ("c-b", "b")] {
        rig.report(CLIENTS, pod, true).await;
        eventually("labelled", async || {
            (rig.node_labels(node).await.len() == 3).then_some(())
        })
        .await;
    }
    controller_on(&rig, "controller-a", "a").await;
    controller_on(&rig, "controller-b", "b").await;
    let with = |pods: &[&str]| {
        let pods = pods.iter().map(|it| format!("pods {it}"));
        all.iter().cloned().chain(pods).collect::<Vec<_>>()
    };
    until(&rig, &with(&["controller-a", "controller-b"])).await;

    rig.report(CLIENTS, "c-a", false).await;
    until(&rig, &with(&["controller-b"])).await;
    eventually("no labels", async || {
        rig.node_labels("a").await.is_empty().then_some(())
    })
    .await;
    // Nobody serves: it is as well off here as anywhere.
    rig.report(CLIENTS, "c-b", false).await;
    eventually("no labels", async || {
        rig.node_labels("b").await.is_empty().then_some(())
    })
    .await;
    until(&rig, &with(&["controller-b"])).await;

    let controller = rig.get("deployments", CSI, "weka-csi-controller").await;
    let affinity = &controller["spec"]["template"]["spec"]["affinity"]["nodeAffinity"];
    let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["preference"];
    assert_eq!(
        preferred["matchExpressions"][0]["key"],
        "topology.csi.weka.io/accessible"
    );
    assert_eq!(
        affinity["requiredDuringSchedulingIgnoredDuringExecution"],
        Value::Null
    );
}

/// Puts a pod on a node, as the scheduler does.
async fn bind(rig: &Rig, pod: &str, node: &str) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let pods = rig.api("pods", CLIENTS);
    let _: Value = pods
        .create_subresource("binding", pod, &PostParams::default(), &binding)
        .await
        .unwrap();
}

/// Nothing of a client goes before it has stopped, however long it takes: what is mounted through it must be unmounted.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_stop_keeps_what_is_beside_it() {
    let rig = client_that_serves().await;
    let all = with_driver(&[("c", "a")]);
    // Only a pod on a node takes its time to end.
    bind(&rig, "c-a", "a").await;
    rig.delete("wekaclients", CLIENTS, "c").await;
    let container = eventually("it is told to stop", async || {
        let pod = rig.get("pods", CLIENTS, "c-a").await;
        let container = rig.get("wekacontainers", CLIENTS, "c-a").await;
        let is_told = !pod["metadata"]["deletionTimestamp"].is_null();
        let says_so = container["status"]["status"] == "Deleting";
        (is_told && says_so).then_some(container)
    })
    .await;
    assert!(!container["metadata"]["finalizers"].is_null());
    assert_eq!(
        rig.objects().await,
        all.iter().cloned().collect(),
        "nothing is gone"
    );
    // Nor with an operator that starts now: what it does for another client says that it has looked.
    rig.kill().await;
    rig.start(i64::MAX).await;
    rig.create_client("d", json!({"csiConfig": {"csiGroup": "other"}}))
        .await;
    let with_other: Vec<_> = with_driver_named("other", &[("d", "a")])
        .into_iter()
        .chain(all)
        .collect();
    until(&rig, &with_other).await;

    // As the kubelet does when its containers have ended.
    let at_once = DeleteParams::default().grace_period(0);
    let pods = rig.api("pods", CLIENTS);
    pods.delete("c-a", &at_once).await.unwrap();
    until(&rig, &with_driver_named("other", &[("d", "a")])).await;
    eventually("gone", async || {
        rig.client_named("c").await.is_null().then_some(())
    })
    .await;
    assert_eq!(rig.node_labels("a").await, Vec::<String>::new());
}
