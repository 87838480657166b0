//! Whom the objects belong to, and which are whose with a controller on every node.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde_json::json;
use stowage_sidecar::controller::run;
use stowage_sidecar::node;
use stowage_stage::{Node, Rig, create, eventually};

use crate::capacity::scene::Scene;

const SELDOM: &str = "--capacity-poll-interval=1h";
const WAITS: &str = "WaitForFirstConsumer";

/// A pod of a Deployment; it never runs.
async fn pod(rig: &Rig) -> String {
    let deployment = json!({
        "metadata": {"name": "driver"},
        "spec": {
            "selector": {"matchLabels": {"app": "driver"}},
            "template": {
                "metadata": {"labels": {"app": "driver"}},
                "spec": {
                    "nodeSelector": {"no": "where"},
                    "containers": [{"name": "a", "image": "a"}],
                },
            },
        },
    });
    let deployments = Api::<Deployment>::namespaced(rig.client.clone(), &rig.namespace);
    create(&deployments, deployment).await;
    let pods = Api::<Pod>::namespaced(rig.client.clone(), &rig.namespace);
    eventually("the pod is there", async || {
        let all = pods.list(&ListParams::default()).await.unwrap();
        all.items.first().map(ResourceExt::name_any)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_belong_to_what_the_flag_says_and_go_with_it() {
    for (level, kind) in [("0", "Pod"), ("1", "ReplicaSet"), ("2", "Deployment")] {
        let mut scene = Scene::new(false, &[SELDOM]).await;
        scene.sidecar.take().unwrap().kill().await;
        let pod = format!("--pod-name={}", pod(&scene.rig).await);
        let level = format!("--capacity-ownerref-level={level}");
        scene.start(&[SELDOM, &pod, &level]);
        scene.class("fast", WAITS).await;
        scene.publishes(&["fast - 1Ti"]).await;
        let object = scene.all().await.remove(0);
        let owner = &object.owner_references()[0];
        assert_eq!(owner.kind, kind);
        assert_eq!(owner.controller, Some(true));

        scene.sidecar.take().unwrap().stop().await.unwrap();
        let api = Api::<Deployment>::namespaced(scene.rig.client.clone(), &scene.rig.namespace);
        let all = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        api.delete("driver", &all).await.unwrap();
        scene.publishes(&[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_name_for_its_pod_it_says_what_is_missing() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--enable-capacity"]);
    let error = sidecar.ended().await.unwrap_err().to_string();
    assert!(error.contains("environment variable NAMESPACE"), "{error}");
    let sidecar = rig.sidecar(run, &["--enable-capacity", "--capacity-namespace=default"]);
    let error = sidecar.ended().await.unwrap_err().to_string();
    assert!(error.contains("environment variable POD_NAME"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_publishes_its_own_capacity_only() {
    let mut scene = Scene::new(true, &[SELDOM]).await;
    scene.sidecar.take().unwrap().kill().await;
    scene.class("fast", WAITS).await;
    let namespace = format!("--capacity-namespace={}", scene.rig.namespace);
    let flags = [
        "--enable-capacity",
        "--capacity-ownerref-level=-1",
        &namespace,
        SELDOM,
    ];
    let mut nodes = Vec::new();
    for name in ["one", "two"] {
        let own = Node::new(&scene.rig, name).await;
        let sidecar = own.sidecar(node::run, &scene.rig, &flags);
        nodes.push((own, sidecar));
    }
    let found = eventually("two objects", async || {
        let all = scene.all().await;
        (all.len() == 2).then_some(all)
    })
    .await;
    for (node, _) in &nodes {
        let manager = format!("external-provisioner-{}", node.name);
        let own = found
            .iter()
            .find(|object| object.labels()["csi.storage.k8s.io/managed-by"] == manager);
        let topology = &own.unwrap().data["nodeTopology"]["matchLabels"];
        let values: Vec<_> = topology.as_object().unwrap().values().collect();
        assert_eq!(values, [&json!(node.name)]);
    }
}
