//! What a driver refuses, and what becomes of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_memory_driver::{Expansion, Mishap, Moment, Room, Trouble};
use stowage_stage::{Rig, create, eventually};
use tokio::time::sleep;
use tonic::Code;

use crate::resize::scene::{CLAIM, GIB, Scene, VOLUME};

const EXPAND: &str = "ControllerExpandVolume";

fn message(scene: &k8s_openapi::api::core::v1::PersistentVolumeClaim) -> String {
    let status = scene.status.clone().unwrap();
    let error = status.conditions.unwrap_or_default().into_iter();
    let mut error = error.filter(|condition| condition.type_ == "ControllerResizeError");
    error
        .next()
        .and_then(|error| error.message)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_told_once_and_the_call_is_made_again() {
    let scene = Scene::new(|profile| profile.expands_on_node = false).await;
    let broken = Mishap::refuse(Code::Internal, "disk on fire").times(3);
    scene.rig.driver.upset(EXPAND, broken);
    scene.request("2Gi").await;
    let text = format!(
        "resize volume \"{}\" by resizer \"{}\" failed: rpc error: code = Internal desc = disk on fire",
        scene.volume, scene.rig.name
    );
    scene.rig.event("data", "VolumeResizeFailed", &text).await;
    scene.has("2Gi").await;
    assert_eq!(scene.sizes(), [2; 4]);
    // The mark, the error once for three of them, and success.
    assert_eq!(scene.gate.writes(), [CLAIM, CLAIM, VOLUME, CLAIM]);
    assert!(scene.conditions().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_stays_on_the_claim_while_it_lasts() {
    let scene = Scene::new(|_| {}).await;
    let broken = Mishap::refuse(Code::Internal, "disk on fire");
    scene.rig.driver.upset(EXPAND, broken);
    scene.request("2Gi").await;
    scene.says(&["ControllerResizeError", "Resizing"]).await;
    assert!(message(&scene.claim().await).ends_with("desc = disk on fire"));
    scene.rig.driver.mend();
    scene.says(&["FileSystemResizePending"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_cannot_be_is_tried_again_only_after_long_or_when_another_is_asked_for() {
    let scene = Scene::new(|profile| profile.expands_on_node = false).await;
    let room = |size| Room {
        largest_volume: Some(size * GIB),
        ..Room::default()
    };
    scene.rig.driver.set_room([], room(4));
    scene.request("5Gi").await;
    scene.says(&["ControllerResizeError", "Resizing"]).await;
    assert!(message(&scene.claim().await).contains("code = OutOfRange"));
    let text = "code = OutOfRange";
    scene.rig.event("data", "VolumeResizeFailed", text).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.sizes(), [5]);
    // This server takes no smaller request; a larger one is another one, too.
    scene.rig.driver.set_room([], room(6));
    scene.request("6Gi").await;
    scene.has("6Gi").await;
    assert_eq!(scene.sizes(), [5, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_end_is_unknown_is_made_again_before_a_larger_one() {
    let scene = Scene::with(
        |profile| profile.expands_on_node = false,
        &["--resizer-timeout=1s"],
    )
    .await;
    let slow = Mishap::new(Moment::Before, Trouble::Hang).times(2);
    scene.rig.driver.upset(EXPAND, slow);
    scene.request("2Gi").await;
    scene.rig.called(EXPAND, 1).await;
    scene.request("3Gi").await;
    scene.has("3Gi").await;
    // The second one found the first one under way, and so on: what counts is that 3 waited for an answer to 2.
    let sizes = scene.sizes();
    let twos = sizes.iter().take_while(|size| **size == 2).count();
    assert!(twos >= 3 && sizes[twos..] == [3], "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_in_use_waits_for_its_pods() {
    let scene = Scene::new(|profile| profile.expansion = Expansion::Offline).await;
    let pods = Api::<Pod>::namespaced(scene.rig.client.clone(), &scene.rig.namespace);
    let pod = json!({
        "metadata": {"name": "reader"},
        "spec": {
            "nodeName": "nowhere",
            "containers": [{"name": "a", "image": "a"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    });
    create(&pods, pod).await;
    assert!(!scene.gate.lists().contains(&"pods".to_owned()));
    let busy = Mishap::refuse(Code::FailedPrecondition, "it is published").once();
    scene.rig.driver.upset(EXPAND, busy);
    scene.request("2Gi").await;
    scene.says(&["ControllerResizeError", "Resizing"]).await;
    eventually("pods are listed", async || {
        scene
            .gate
            .lists()
            .contains(&"pods".to_owned())
            .then_some(())
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.sizes(), [2], "nobody asks while the pod is there");

    let now = DeleteParams::default().grace_period(0);
    pods.delete("reader", &now).await.unwrap();
    scene.says(&["FileSystemResizePending"]).await;
    assert_eq!(scene.sizes(), [2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_in_use_without_pods_is_asked_for_again() {
    let scene = Scene::new(|_| {}).await;
    let busy = Mishap::refuse(Code::FailedPrecondition, "still detaching").times(3);
    scene.rig.driver.upset(EXPAND, busy);
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    assert_eq!(scene.sizes(), [2; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_left_alone_if_so_told() {
    let flag = ["--handle-volume-inuse-error=false"];
    let scene = Scene::with(|_| {}, &flag).await;
    let busy = Mishap::refuse(Code::FailedPrecondition, "it is published").times(2);
    scene.rig.driver.upset(EXPAND, busy);
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    assert!(!scene.gate.lists().contains(&"pods".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_shrinks() {
    let scene = Scene::new(|_| {}).await;
    let refused = scene.try_request("500Mi").await.unwrap_err();
    assert!(
        refused
            .to_string()
            // Than the previous value, says 1.20; than status.capacity, say newer servers.
            .contains("can not be less than")
    );
    sleep(Duration::from_millis(500)).await;
    assert!(scene.sizes().is_empty());
    assert!(scene.gate.writes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_cannot_says_so_on_the_claim() {
    let scene = Scene::new(|profile| {
        *profile = profile.clone().without(Can::ExpandVolume);
        profile.node.clear();
    })
    .await;
    scene.request("2Gi").await;
    scene.says(&["ControllerResizeError"]).await;
    let text = "cannot expand volumes: create a larger claim";
    assert!(message(&scene.claim().await).contains(text));
    scene.rig.event("data", "VolumeResizeFailed", text).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(scene.gate.writes(), [CLAIM]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_is_named_and_its_coming_helps() {
    let rig = Rig::plain().await;
    rig.class(json!({
        "allowVolumeExpansion": true,
        "parameters": {
            "csi.storage.k8s.io/controller-expand-secret-name": "key",
            "csi.storage.k8s.io/controller-expand-secret-namespace": rig.namespace,
        },
    }))
    .await;
    let scene = Scene::of(rig, &[]).await;
    scene.request("2Gi").await;
    scene.says(&["ControllerResizeError"]).await;
    assert!(message(&scene.claim().await).contains("does not exist"));
    assert!(scene.sizes().is_empty());
    scene.rig.secret("key", "password", "sesame").await;
    scene.says(&["FileSystemResizePending"]).await;
}
