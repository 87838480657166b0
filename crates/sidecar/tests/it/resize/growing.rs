//! Volumes grow, on the controller's side and on the node's.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::json;
use stowage_csi::proto::csi::ControllerExpandVolumeRequest;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_stage::{Rig, eventually};
use tokio::time::sleep;

use crate::resize::scene::{CLAIM, GIB, NOT_REQUIRED, PRE_RESIZE, Scene, VOLUME};

#[tokio::test(flavor = "multi_thread")]
async fn the_node_gets_its_turn_when_the_volume_has_grown() {
    let scene = Scene::new(|_| {}).await;
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    assert_eq!(scene.sizes(), [2]);
    assert_eq!(scene.pv_size().await, "2Gi");
    assert_eq!(scene.pv().await.annotations()[PRE_RESIZE], "1Gi");
    scene.has("1Gi").await;
    let text = format!("External resizer is resizing volume {}", scene.volume);
    scene.rig.event("data", "Resizing", &text).await;
    let text = "Require file system resize of volume on node";
    scene
        .rig
        .event("data", "FileSystemResizeRequired", text)
        .await;
    assert_eq!(scene.gate.writes(), [CLAIM, VOLUME, CLAIM]);

    scene.node_follows("2Gi").await;
    scene.tidied().await;
    assert_eq!(scene.gate.writes(), [VOLUME]);
    assert_eq!(scene.sizes(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_needs_no_node_is_done_at_once() {
    let scene = Scene::new(|profile| profile.expands_on_node = false).await;
    scene.request("2Gi").await;
    scene.has("2Gi").await;
    let claim = scene.claim().await;
    assert_eq!(claim.annotations()[NOT_REQUIRED], "true");
    assert!(scene.conditions().await.is_empty());
    assert!(!scene.pv().await.annotations().contains_key(PRE_RESIZE));
    let text = "Resize volume succeeded";
    scene
        .rig
        .event("data", "VolumeResizeSuccessful", text)
        .await;
    assert_eq!(scene.gate.writes(), [CLAIM, VOLUME, CLAIM]);

    // The next one begins without the mark of this one.
    scene.gate.hold(VOLUME, 1);
    scene.request("3Gi").await;
    scene.gate.holds().await;
    let claim = scene.claim().await;
    assert!(!claim.annotations().contains_key(NOT_REQUIRED));
    assert_eq!(scene.conditions().await, ["Resizing"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_only_nodes_expand_nobody_is_called() {
    let scene = Scene::new(|profile| {
        *profile = profile.clone().without(Can::ExpandVolume);
    })
    .await;
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    assert_eq!(scene.pv_size().await, "2Gi");
    assert_eq!(scene.pv().await.annotations()[PRE_RESIZE], "1Gi");
    assert_eq!(scene.gate.writes(), [VOLUME, CLAIM]);
    assert!(scene.sizes().is_empty());
    scene.node_follows("2Gi").await;
    scene.tidied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_is_told_how_the_volume_is_used_and_gets_its_secret() {
    let rig = Rig::plain().await;
    rig.secret("key", "password", "sesame").await;
    rig.class(json!({
        "allowVolumeExpansion": true,
        "mountOptions": ["noatime"],
        "parameters": {
            "csi.storage.k8s.io/fstype": "xfs",
            "csi.storage.k8s.io/controller-expand-secret-name": "key",
            "csi.storage.k8s.io/controller-expand-secret-namespace": rig.namespace,
        },
    }))
    .await;
    let scene = Scene::of(rig, &[]).await;
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    let request: ControllerExpandVolumeRequest = scene.rig.driver.last_request().unwrap();
    let handle = scene.pv().await.spec.unwrap().csi.unwrap().volume_handle;
    assert_eq!(request.volume_id, handle);
    assert_eq!(request.capacity_range.unwrap().required_bytes, 2 * GIB);
    assert_eq!(request.capacity_range.unwrap().limit_bytes, 0);
    assert_eq!(request.secrets["password"], "sesame");
    let capability = request.volume_capability.unwrap();
    let Some(AccessType::Mount(mount)) = capability.access_type else {
        panic!("{capability:?}");
    };
    assert_eq!(
        (mount.fs_type.as_str(), mount.mount_flags),
        ("xfs", vec!["noatime".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn more_that_is_asked_for_meanwhile_comes_after() {
    let scene = Scene::new(|_| {}).await;
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    // No kubelet has come by yet.
    scene.request("3Gi").await;
    let mut had = "1Gi";
    if scene.has_fields().await {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(scene.sizes(), [2]);
        scene.node_follows("2Gi").await;
        had = "2Gi";
    }
    eventually("the volume has 3Gi", async || {
        (scene.pv_size().await == "3Gi").then_some(())
    })
    .await;
    scene.says(&["FileSystemResizePending"]).await;
    assert_eq!(scene.sizes(), [2, 3]);
    // What the claim had before its node's next step.
    assert_eq!(scene.pv().await.annotations()[PRE_RESIZE], had);
    scene.node_follows("3Gi").await;
    scene.tidied().await;
}
