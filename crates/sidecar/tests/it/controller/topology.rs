//! Where volumes are made.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stowage_csi::proto::csi::{CreateVolumeRequest, Topology};
use stowage_memory_driver::{Mishap, Room};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, eventually};

const ZONE: &str = "topology.stowage.test/zone";
const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// A driver with nodes in three zones.
async fn three_zones() -> Rig {
    let rig = Rig::new(|profile| profile).await;
    for zone in ["a", "b", "c"] {
        rig.node(zone, &[(ZONE, zone)]).await;
    }
    rig
}

fn zones(topologies: &[Topology]) -> Vec<String> {
    let zone = |one: &Topology| one.segments[ZONE].clone();
    topologies.iter().map(zone).collect()
}

/// The zones that will do, and those to prefer, of the last request.
fn asked(rig: &Rig) -> (Vec<String>, Vec<String>) {
    let request: CreateVolumeRequest = rig.driver.last_request().unwrap();
    let wanted = request.accessibility_requirements.unwrap_or_default();
    (zones(&wanted.requisite), zones(&wanted.preferred))
}

async fn waiting_class(rig: &Rig, mut class: Value) {
    class["volumeBindingMode"] = json!("WaitForFirstConsumer");
    rig.class(class).await;
}

/// As the scheduler does.
async fn select(rig: &Rig, claim: &str, node: &str) {
    let node = format!("{}-{node}", rig.namespace);
    rig.annotate(claim, SELECTED, Some(&node)).await;
}

async fn is_not_selected(rig: &Rig, claim: &str) {
    eventually("the choice of the node is taken back", async || {
        let claim = rig.get_claim(claim).await;
        let selected = claim.metadata.annotations.unwrap_or_default();
        (!selected.contains_key(SELECTED)).then_some(())
    })
    .await;
}

/// So long that a sidecar would have done something.
async fn a_while(sidecar: &Running) {
    assert!(sidecar.runs().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_bind_at_once_are_spread_over_all_zones() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    let mut first = BTreeSet::new();
    for ordinal in 0..3 {
        let name = format!("data-web-{ordinal}");
        rig.claim(&name, json!({})).await;
        let volume = serde_json::to_value(rig.bound(&name).await).unwrap();
        let (requisite, preferred) = asked(&rig);
        assert_eq!(requisite, ["a", "b", "c"]);
        let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        let expression = json!({"key": ZONE, "operator": "In", "values": [preferred[0]]});
        assert_eq!(*terms, json!([{"matchExpressions": [expression]}]));
        first.insert(preferred[0].clone());
    }
    assert_eq!(first.len(), 3, "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_need_not_hear_of_zones_where_no_pod_waits() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &["--immediate-topology=false"]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    assert_eq!(rig.creations()[0].accessibility_requirements, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_its_pod_and_is_made_near_it() {
    let rig = three_zones().await;
    let sidecar = rig.sidecar(run, &[]);
    waiting_class(&rig, json!({})).await;
    rig.claim("data", json!({})).await;
    a_while(&sidecar).await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    select(&rig, "data", "b").await;
    rig.bound("data").await;
    let (requisite, preferred) = asked(&rig);
    assert_eq!(requisite, ["a", "b", "c"]);
    assert_eq!(preferred, ["b", "c", "a"]);
    let volume = &rig.driver.volumes()[0];
    assert_eq!(volume.place.as_ref().unwrap().segments[ZONE], "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_means_the_pods_zone_and_no_other() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &["--strict-topology"]);
    waiting_class(&rig, json!({})).await;
    rig.claim("data", json!({})).await;
    select(&rig, "data", "c").await;
    rig.bound("data").await;
    assert_eq!(asked(&rig), (vec!["c".into()], vec!["c".into()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_can_allow_less_than_the_cluster_has() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &[]);
    let labels = json!([{"key": ZONE, "values": ["b", "c"]}]);
    let allowed = json!({"allowedTopologies": [{"matchLabelExpressions": labels}]});
    waiting_class(&rig, allowed).await;
    rig.claim("data", json!({})).await;
    select(&rig, "data", "a").await;
    rig.event(
        "data",
        "ProvisioningFailed",
        "is outside of the allowedTopologies of the storage class",
    )
    .await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    select(&rig, "data", "c").await;
    rig.bound("data").await;
    let (requisite, preferred) = asked(&rig);
    assert_eq!(requisite, ["b", "c"]);
    assert_eq!(preferred, ["c", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_room_the_scheduler_chooses_again() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &["--strict-topology"]);
    waiting_class(&rig, json!({})).await;
    let full = Room {
        available: 0,
        ..Room::default()
    };
    rig.driver.set_room([(ZONE, "a")], full);
    rig.claim("data", json!({})).await;
    select(&rig, "data", "a").await;
    rig.event(
        "data",
        "ProvisioningFailed",
        "code = ResourceExhausted desc = there is no room",
    )
    .await;
    is_not_selected(&rig, "data").await;
    select(&rig, "data", "b").await;
    rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_gone_is_chosen_again() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &[]);
    waiting_class(&rig, json!({})).await;
    rig.claim("data", json!({})).await;
    select(&rig, "data", "gone").await;
    rig.event(
        "data",
        "ProvisioningFailed",
        "which the scheduler chose, is gone",
    )
    .await;
    is_not_selected(&rig, "data").await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_be_running_is_repeated_as_it_was_though_nodes_came_and_went() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &["--timeout=2s"]);
    waiting_class(&rig, json!({})).await;
    rig.driver.upset("CreateVolume", Mishap::hang().once());
    rig.claim("data", json!({})).await;
    select(&rig, "data", "b").await;
    rig.called("CreateVolume", 1).await;
    rig.node("d", &[(ZONE, "d")]).await;
    rig.bound("data").await;
    let all = rig.creations();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], all[1]);
    rig.claim("next", json!({})).await;
    select(&rig, "next", "d").await;
    rig.bound("next").await;
    assert_eq!(asked(&rig).1, ["d", "a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_driver_told_no_keys_is_waited_for() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.node("new", &[]).await;
    waiting_class(&rig, json!({})).await;
    rig.claim("data", json!({})).await;
    select(&rig, "data", "new").await;
    rig.event(
        "data",
        "ProvisioningFailed",
        "has reported no topology keys",
    )
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let claim = rig.get_claim("data").await;
    assert!(claim.metadata.annotations.unwrap().contains_key(SELECTED));
}

/// A volume that is made anywhere may be where no node can use it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_binds_at_once_waits_for_the_first_node_of_the_driver() {
    let rig = Rig::new(|profile| profile).await;
    let _sidecar = rig.sidecar(run, &["--retry-interval-start=1m"]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let says = "no available topology found";
    rig.event("data", "ProvisioningFailed", says).await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    // The node brings the claim back, not the end of a pause.
    rig.node("a", &[(ZONE, "a")]).await;
    rig.bound("data").await;
    assert_eq!(asked(&rig).0, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn topology_can_be_switched_off() {
    let rig = three_zones().await;
    let gates = "--feature-gates=VolumeAttributesClass=true,Topology=false";
    let _sidecar = rig.sidecar(run, &[gates]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await;
    assert_eq!(rig.creations()[0].accessibility_requirements, None);
    assert_eq!(volume.spec.unwrap().node_affinity, None);
}

/// A node that has just come is registered soon: the pod need not go elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_which_the_driver_is_not_registered_yet_is_waited_for() {
    let rig = three_zones().await;
    let _sidecar = rig.sidecar(run, &["--retry-interval-start=1m"]);
    let node = format!("{}-new", rig.namespace);
    let (plane, name) = (rig.plane(), node.clone());
    let add = move || {
        let labels = [(ZONE, "d")];
        plane.add_node(&name, "another.csi.test", &labels).unwrap();
    };
    tokio::task::spawn_blocking(add).await.unwrap();
    waiting_class(&rig, json!({})).await;
    rig.claim("data", json!({})).await;
    select(&rig, "data", "new").await;
    let says = "the driver is not registered on node";
    rig.event("data", "ProvisioningFailed", says).await;
    let claim = rig.get_claim("data").await;
    assert!(claim.metadata.annotations.unwrap().contains_key(SELECTED));

    let registered = json!({"name": rig.name, "nodeID": node, "topologyKeys": [ZONE]});
    let patch = json!({"spec": {"drivers": [registered]}});
    let nodes = Api::<CSINode>::all(rig.client.clone());
    let params = PatchParams::default();
    let patched = nodes.patch(&node, &params, &Patch::Strategic(&patch)).await;
    patched.unwrap();
    rig.bound("data").await;
    assert_eq!(asked(&rig).1, ["d", "a", "b", "c"]);
}
