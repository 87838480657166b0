//! Drivers that run whole on every node, each with its own sidecar.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::json;
use stowage_api::snapshot::names;
use stowage_memory_driver::{Mishap, Room};
use stowage_sidecar::node::run;
use stowage_stage::{Node, Rig, eventually, pass};

use crate::controller::sources::{restored, snapshot_on};

const SELECTED: &str = "volume.kubernetes.io/selected-node";
const QUICK: &str = "--node-deployment-base-delay=300ms";

async fn two_nodes() -> (Rig, Node, Node) {
    let rig = Rig::new(|profile| profile).await;
    let (a, b) = (Node::new(&rig, "a").await, Node::new(&rig, "b").await);
    (rig, a, b)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_serves_the_claims_of_its_pods_and_deletes_what_is_on_it() {
    let (rig, a, b) = two_nodes().await;
    let _sidecars = (a.sidecar(run, &rig, &[]), b.sidecar(run, &rig, &[]));
    rig.class(json!({"volumeBindingMode": "WaitForFirstConsumer"}))
        .await;
    for (claim, node) in [("one", &a), ("two", &b)] {
        rig.claim(claim, json!({})).await;
        rig.annotate(claim, SELECTED, Some(&node.name)).await;
        let volume = rig.bound(claim).await;
        let affinity = serde_json::to_value(volume.spec.unwrap().node_affinity).unwrap();
        assert!(affinity.to_string().contains(&node.name), "{affinity}");
        assert_eq!(node.driver.volumes().len(), 1);
    }
    assert_eq!(a.driver.calls("CreateVolume"), 1);
    assert_eq!(b.driver.calls("CreateVolume"), 1);
    rig.delete_claim("two").await;
    eventually("it is gone", async || {
        b.driver.volumes().is_empty().then_some(())
    })
    .await;
    assert_eq!(a.driver.calls("DeleteVolume"), 0);
    rig.delete_claim("one").await;
    rig.nothing_left().await;
    assert_eq!(a.driver.volumes(), []);
    assert_eq!(b.driver.calls("DeleteVolume"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_needs_no_pod_is_taken_by_exactly_one_node() {
    let (rig, a, b) = two_nodes().await;
    let _sidecars = (
        a.sidecar(run, &rig, &[QUICK]),
        b.sidecar(run, &rig, &[QUICK]),
    );
    rig.class(json!({})).await;
    for number in 0..8 {
        rig.claim(&format!("data-{number}"), json!({})).await;
    }
    for number in 0..8 {
        rig.bound(&format!("data-{number}")).await;
    }
    let made = a.driver.calls("CreateVolume") + b.driver.calls("CreateVolume");
    assert_eq!(made, 8);
    for number in 0..8 {
        rig.delete_claim(&format!("data-{number}")).await;
    }
    rig.nothing_left().await;
    assert_eq!((a.driver.volumes().len(), b.driver.volumes().len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_can_leave_such_claims_to_others() {
    let (rig, a, b) = two_nodes().await;
    let not_here = "--node-deployment-immediate-binding=false";
    let _sidecars = (
        a.sidecar(run, &rig, &[not_here]),
        b.sidecar(run, &rig, &[QUICK]),
    );
    rig.class(json!({})).await;
    for number in 0..4 {
        rig.claim(&format!("data-{number}"), json!({})).await;
        rig.bound(&format!("data-{number}")).await;
    }
    assert_eq!(a.driver.calls("CreateVolume"), 0);
    assert_eq!(b.driver.volumes().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_room_gives_the_claim_to_another() {
    let (rig, a, b) = two_nodes().await;
    a.driver.set_room(
        [],
        Room {
            available: 0,
            ..Room::default()
        },
    );
    let _sidecars = (
        a.sidecar(run, &rig, &[QUICK]),
        b.sidecar(run, &rig, &[QUICK]),
    );
    rig.class(json!({})).await;
    for number in 0..4 {
        rig.claim(&format!("data-{number}"), json!({})).await;
    }
    for number in 0..4 {
        rig.bound(&format!("data-{number}")).await;
    }
    assert_eq!(b.driver.volumes().len(), 4);
    assert!(a.driver.volumes().is_empty());
    // It asked how much room there is, and did not take what it would have had to give back.
    assert_eq!(a.driver.calls("CreateVolume"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_the_class_does_not_allow_leaves_its_claims_alone() {
    let (rig, a, b) = two_nodes().await;
    let _sidecars = (
        a.sidecar(run, &rig, &[QUICK]),
        b.sidecar(run, &rig, &[QUICK]),
    );
    let key = format!("{}/node", rig.name);
    let labels = json!([{"key": key, "values": [b.name]}]);
    rig.class(json!({"allowedTopologies": [{"matchLabelExpressions": labels}]}))
        .await;
    for number in 0..10 {
        rig.claim(&format!("data-{number}"), json!({})).await;
    }
    for number in 0..10 {
        rig.bound(&format!("data-{number}")).await;
    }
    assert_eq!(a.driver.calls("CreateVolume"), 0);
    assert_eq!(b.driver.volumes().len(), 10);
}

/// Elsewhere it could not be made: the node with the original need not wait for others, and they wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_made_at_once_where_its_original_is() {
    let (rig, a, b) = two_nodes().await;
    let long = "--node-deployment-base-delay=1m";
    let _sidecars = (a.sidecar(run, &rig, &[long]), b.sidecar(run, &rig, &[long]));
    rig.class(json!({})).await;
    rig.claim("original", json!({})).await;
    rig.annotate("original", SELECTED, Some(&b.name)).await;
    rig.bound("original").await;
    let source = json!({"kind": "PersistentVolumeClaim", "name": "original"});
    for number in 0..3 {
        let name = format!("copy-{number}");
        rig.claim(&name, json!({"spec": {"dataSource": source}}))
            .await;
    }
    for number in 0..3 {
        rig.bound(&format!("copy-{number}")).await;
    }
    assert_eq!(a.driver.calls("CreateVolume"), 0);
    assert_eq!(b.driver.volumes().len(), 4);
}

/// Where a snapshot is: on the node that looks after it, or, where nobody says, on the node of its volume.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_restored_at_once_where_it_is() {
    let (rig, a, b) = two_nodes().await;
    rig.install_snapshot_kinds().await;
    let long = "--node-deployment-base-delay=1m";
    let _sidecars = (a.sidecar(run, &rig, &[long]), b.sidecar(run, &rig, &[long]));
    rig.class(json!({})).await;
    rig.claim("original", json!({})).await;
    rig.annotate("original", SELECTED, Some(&b.name)).await;
    let volume = rig.bound("original").await;
    let volume = volume.spec.unwrap().csi.unwrap().volume_handle;
    let labelled = json!({"metadata": {"labels": {names::MANAGED_BY: b.name}}});
    let source = json!({"snapshotHandle": null, "volumeHandle": volume});
    let unlabelled = json!({"spec": {"source": source}});
    for (name, content) in [("labelled", labelled), ("unlabelled", unlabelled)] {
        snapshot_on(&b.driver, &rig, name, &volume, content, json!({})).await;
        rig.claim(&format!("from-{name}"), restored(name)).await;
        rig.bound(&format!("from-{name}")).await;
    }
    assert_eq!(a.driver.calls("CreateVolume"), 0);
    assert_eq!(b.driver.volumes().len(), 3);
}

/// In one thread: time can be put forward only there.
#[tokio::test]
async fn the_timeout_of_a_nodes_sidecar_reaches_its_roles() {
    let (rig, a, _b) = two_nodes().await;
    let _sidecar = a.sidecar(run, &rig, &["--timeout=1h"]);
    rig.class(json!({"volumeBindingMode": "WaitForFirstConsumer"}))
        .await;
    let half = Duration::from_secs(15);
    a.driver
        .upset("CreateVolume", Mishap::delay(half * 2).once());
    rig.claim("data", json!({})).await;
    rig.annotate("data", SELECTED, Some(&a.name)).await;
    eventually("it is under way", async || {
        (a.driver.calls("CreateVolume") == 1).then_some(())
    })
    .await;
    // Ten seconds are the default: then the call would be given up here, and made again.
    pass(half).await;
    rig.get_claim("data").await;
    pass(half).await;
    rig.bound("data").await;
    assert_eq!(a.driver.calls("CreateVolume"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_has_a_journal_of_its_own() {
    let (rig, a, b) = two_nodes().await;
    let (first, second) = (a.sidecar(run, &rig, &[]), b.sidecar(run, &rig, &[]));
    rig.class(json!({"volumeBindingMode": "WaitForFirstConsumer"}))
        .await;
    a.driver.upset("CreateVolume", Mishap::hang().once());
    rig.claim("one", json!({})).await;
    rig.annotate("one", SELECTED, Some(&a.name)).await;
    eventually("it is under way", async || {
        (a.driver.calls("CreateVolume") == 1).then_some(())
    })
    .await;
    first.kill().await;
    rig.delete_claim("one").await;
    rig.claim("two", json!({})).await;
    rig.annotate("two", SELECTED, Some(&b.name)).await;
    rig.bound("two").await;
    assert!(second.runs().await);
    let before = a.driver.calls("CreateVolume");
    let _first = a.sidecar(run, &rig, &[]);
    eventually("the intent is resolved", async || {
        let resolved =
            a.driver.calls("CreateVolume") > before && a.driver.calls("DeleteVolume") > 0;
        resolved.then_some(())
    })
    .await;
    assert!(a.driver.volumes().is_empty());
    assert_eq!(b.driver.volumes().len(), 1);
}

/// The journal of a node that is gone is told of and goes; that of a node that is there, or was lately, stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_of_a_node_that_is_gone_is_reported_and_deleted() {
    let (rig, a, b) = two_nodes().await;
    let first = a.sidecar(run, &rig, &[]);
    rig.class(json!({"volumeBindingMode": "WaitForFirstConsumer"}))
        .await;
    a.driver.upset("CreateVolume", Mishap::hang());
    rig.claim("one", json!({})).await;
    rig.annotate("one", SELECTED, Some(&a.name)).await;
    eventually("it is under way", async || {
        (a.driver.calls("CreateVolume") == 1).then_some(())
    })
    .await;
    first.kill().await;
    let leases = Api::<Lease>::namespaced(rig.client.clone(), &rig.namespace);
    let name = format!("stowage-intents-{}-{}", rig.name, a.name);
    let mut lease = leases.get(&name).await.unwrap();
    let long_ago = MicroTime("2020-01-01T00:00:00Z".parse().unwrap());
    lease.spec.as_mut().unwrap().renew_time = Some(long_ago);
    leases
        .replace(&name, &PostParams::default(), &lease)
        .await
        .unwrap();
    // Another one of the kind, whose node is there.
    let kept = format!("stowage-intents-{}-{}", rig.name, b.name);
    lease.metadata = ObjectMeta {
        name: Some(kept.clone()),
        annotations: lease.metadata.annotations,
        ..ObjectMeta::default()
    };
    let annotations = lease.metadata.annotations.as_mut().unwrap();
    annotations.insert("stowage.dev/node".to_owned(), b.name.clone());
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let nodes = Api::<KubernetesNode>::all(rig.client.clone());
    nodes
        .delete(&a.name, &DeleteParams::default())
        .await
        .unwrap();

    // The first may have looked before it was killed: nobody else would, for ten minutes.
    let turn = format!("stowage-intents-{}", rig.name);
    let _ = leases.delete(&turn, &DeleteParams::default()).await;

    let _second = b.sidecar(run, &rig, &[]);
    rig.event("one", "IntentAbandoned", &a.name).await;
    eventually("the Lease is gone", async || {
        leases.get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(leases.get_opt(&kept).await.unwrap().is_some());
}
