//! Which objects there are, what they say, and when that is written.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use stowage_csi::proto::csi::GetCapacityRequest;
use stowage_stage::eventually;
use tokio::time::sleep;

use crate::capacity::scene::{Scene, ZONE};

const OFTEN: &str = "--capacity-poll-interval=300ms";
const SELDOM: &str = "--capacity-poll-interval=1h";
const WAITS: &str = "WaitForFirstConsumer";

#[tokio::test(flavor = "multi_thread")]
async fn objects_come_and_go_with_classes_and_nodes() {
    let scene = Scene::new(true, &[SELDOM]).await;
    scene.room("a", 5);
    scene.room("b", 7);
    let one = scene.rig.node("one", &[(ZONE, "a")]).await;
    scene.rig.node("two", &[(ZONE, "a")]).await;
    let fast = scene.class("fast", WAITS).await;
    scene.class("now", "Immediate").await;
    scene.publishes(&["fast a 5Gi"]).await;

    let three = scene.rig.node("three", &[(ZONE, "b")]).await;
    scene.publishes(&["fast a 5Gi", "fast b 7Gi"]).await;
    let slow = scene.class("slow", WAITS).await;
    let both = ["fast a 5Gi", "fast b 7Gi", "slow a 5Gi", "slow b 7Gi"];
    scene.publishes(&both).await;

    // Zone a has another node.
    scene.delete_node(&one).await;
    scene.delete_node(&three).await;
    scene.publishes(&["fast a 5Gi", "slow a 5Gi"]).await;
    scene.delete_class(&fast).await;
    scene.publishes(&["slow a 5Gi"]).await;
    scene.delete_class(&slow).await;
    scene.publishes(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_what_upstreams_would_be() {
    let scene = Scene::new(true, &[SELDOM]).await;
    scene.rig.node("one", &[(ZONE, "a")]).await;
    let class = scene.class("fast", WAITS).await;
    scene.publishes(&["fast a 1Ti"]).await;
    let object = scene.all().await.remove(0);
    assert!(object.name_any().starts_with("csisc-"));
    let labels = object.labels();
    assert_eq!(labels["csi.storage.k8s.io/drivername"], scene.rig.name);
    let manager = &labels["csi.storage.k8s.io/managed-by"];
    assert_eq!(manager, "external-provisioner");
    assert_eq!(object.data["storageClassName"], class);
    assert_eq!(
        object.data["nodeTopology"],
        json!({"matchLabels": {ZONE: "a"}})
    );

    let request: GetCapacityRequest = scene.rig.driver.last_request().unwrap();
    assert_eq!(request.parameters["csi.storage.k8s.io/fstype"], "xfs");
    assert_eq!(request.parameters["tier"], "gold");
    assert!(request.volume_capabilities.is_empty());
    assert_eq!(request.accessible_topology.unwrap().segments[ZONE], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_is_not_written() {
    let mut scene = Scene::new(true, &[OFTEN]).await;
    scene.rig.node("one", &[(ZONE, "a")]).await;
    scene.class("fast", WAITS).await;
    scene.publishes(&["fast a 1Ti"]).await;
    let before = scene.all().await.remove(0);
    let calls = scene.rig.driver.calls("GetCapacity");
    scene.rig.called("GetCapacity", calls + 3).await;
    // Nor by the next process.
    scene.sidecar.take().unwrap().kill().await;
    scene.start(&[OFTEN]);
    let calls = scene.rig.driver.calls("GetCapacity");
    scene.rig.called("GetCapacity", calls + 3).await;
    let after = scene.all().await;
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].resource_version(), before.resource_version());

    scene.room("a", 3);
    scene.publishes(&["fast a 3Gi"]).await;
    assert_eq!(scene.all().await[0].uid(), before.uid());
    let sidecar = scene.sidecar.as_ref().unwrap();
    sidecar
        .shows(&["csistoragecapacities_desired_goal", " 1"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_comes_or_goes_makes_its_place_be_asked() {
    let scene = Scene::new(false, &[SELDOM, "--capacity-for-immediate-binding"]).await;
    scene.room("", 5);
    scene.rig.class(json!({})).await;
    scene.sidecar_publishes("5Gi").await;
    scene.room("", 4);
    scene.rig.claim("data", json!({})).await;
    scene.rig.bound("data").await;
    scene.sidecar_publishes("4Gi").await;
    scene.room("", 5);
    scene.rig.delete_claim("data").await;
    scene.sidecar_publishes("5Gi").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_spoils_is_mended() {
    let scene = Scene::new(true, &[OFTEN]).await;
    scene.rig.node("one", &[(ZONE, "a")]).await;
    scene.class("fast", WAITS).await;
    scene.publishes(&["fast a 1Ti"]).await;
    let mut copy = scene.all().await.remove(0);
    let first = copy.name_any();
    let now = DeleteParams::default();
    scene.objects().delete(&first, &now).await.unwrap();
    scene.publishes(&["fast a 1Ti"]).await;

    copy.metadata.name = None;
    copy.metadata.generate_name = Some("csisc-".to_owned());
    copy.metadata.resource_version = None;
    copy.metadata.uid = None;
    let twice = scene.objects().create(&PostParams::default(), &copy).await;
    twice.unwrap();
    scene.publishes(&["fast a 1Ti"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_does_not_answer_leaves_the_last_word_standing() {
    let scene = Scene::new(true, &[OFTEN]).await;
    scene.rig.node("one", &[(ZONE, "a")]).await;
    scene.class("fast", WAITS).await;
    scene.publishes(&["fast a 1Ti"]).await;
    let broken = stowage_memory_driver::Mishap::refuse(tonic::Code::Internal, "no");
    scene.rig.driver.upset("GetCapacity", broken);
    scene.room("a", 3);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.published().await, ["fast a 1Ti"]);
    scene.rig.driver.mend();
    scene.publishes(&["fast a 3Gi"]).await;
}

impl Scene {
    /// Waits until the only object says this.
    async fn sidecar_publishes(&self, capacity: &str) {
        eventually(&format!("{capacity} are published"), async || {
            let all = self.all().await;
            let says = |object: &kube::api::DynamicObject| object.data["capacity"] == capacity;
            (all.len() == 1 && says(&all[0])).then_some(())
        })
        .await;
    }
}
