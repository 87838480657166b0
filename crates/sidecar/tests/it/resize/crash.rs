//! Whatever ends in the middle, the next one finds from the objects alone what is left to do.

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stowage_sidecar::controller::run;

use crate::resize::scene::{CLAIM, PRE_RESIZE, Scene, VOLUME};

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_call_and_before_the_volumes_object() {
    let mut scene = Scene::new(|_| {}).await;
    scene.gate.hold(VOLUME, 1);
    scene.request("2Gi").await;
    scene.gate.holds().await;
    assert_eq!(scene.sizes(), [2]);
    scene.restart().await;
    scene.says(&["FileSystemResizePending"]).await;
    assert_eq!(scene.sizes(), [2, 2]);
    assert_eq!(scene.pv_size().await, "2Gi");
    assert_eq!(scene.pv().await.annotations()[PRE_RESIZE], "1Gi");
    // The mark is there already.
    assert_eq!(scene.gate.writes(), [VOLUME, CLAIM]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_claim_is_written() {
    for on_node in [true, false] {
        let mut scene = Scene::new(|profile| profile.expands_on_node = on_node).await;
        scene.gate.hold(CLAIM, 2);
        scene.request("2Gi").await;
        scene.gate.holds().await;
        assert_eq!(scene.pv_size().await, "2Gi");
        scene.restart().await;
        if on_node {
            scene.says(&["FileSystemResizePending"]).await;
        } else {
            scene.has("2Gi").await;
        }
        assert_eq!(scene.sizes(), [2, 2]);
        assert_eq!(scene.gate.writes(), [CLAIM]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_claim_is_marked() {
    let mut scene = Scene::new(|profile| profile.expands_on_node = false).await;
    scene.gate.hold(CLAIM, 1);
    scene.request("2Gi").await;
    scene.gate.holds().await;
    assert!(scene.sizes().is_empty(), "no call before the mark");
    scene.restart().await;
    scene.has("2Gi").await;
    assert_eq!(scene.gate.writes(), [CLAIM, VOLUME, CLAIM]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_node_finished_while_nobody_looked_is_tidied() {
    let mut scene = Scene::new(|_| {}).await;
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    let sidecar = scene.sidecar.take().unwrap();
    sidecar.stop().await.unwrap();
    scene.node_follows("2Gi").await;
    scene.sidecar = Some(scene.rig.sidecar_as(run, scene.gate.kubeconfig(), &[]));
    scene.tidied().await;
    assert_eq!(scene.sizes(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_may_be_faster_than_we_are() {
    let mut scene = Scene::new(|_| {}).await;
    scene.gate.hold(CLAIM, 2);
    scene.request("2Gi").await;
    scene.gate.holds().await;
    // A kubelet sees the volume's object and does not wait for the claim.
    scene.node_follows("2Gi").await;
    scene.restart().await;
    scene.tidied().await;
    assert!(scene.conditions().await.is_empty());
    assert_eq!(scene.sizes(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_go_resizer_left_in_the_middle_is_finished() {
    let mut scene = Scene::new(|_| {}).await;
    scene.sidecar.take().unwrap().stop().await.unwrap();
    scene.request("2Gi").await;
    let (params, claims) = (PatchParams::default(), scene.rig.claims());
    let status = json!({"status": {"conditions": [
        {"type": "Resizing", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Foreign", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}});
    let status = Patch::Merge(&status);
    claims.patch_status("data", &params, &status).await.unwrap();
    let grown = json!({"spec": {"capacity": {"storage": "2Gi"}}});
    let volumes = scene.rig.volumes();
    let grown = Patch::Merge(&grown);
    volumes.patch(&scene.volume, &params, &grown).await.unwrap();

    scene.sidecar = Some(scene.rig.sidecar_as(run, scene.gate.kubeconfig(), &[]));
    scene.says(&["FileSystemResizePending", "Foreign"]).await;
    assert_eq!(scene.pv().await.annotations()[PRE_RESIZE], "1Gi");
    assert_eq!(scene.sizes(), [2]);
}
