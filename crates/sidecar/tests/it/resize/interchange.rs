//! Claims and volumes that the Go resizer left in the middle of its work. It writes a condition with a time and
//! without a reason, and knows the volume's old size from an annotation.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stowage_sidecar::controller::run;

use crate::resize::scene::{CLAIM, PRE_RESIZE, Scene, VOLUME};

/// A scene whose sidecar has gone, and whose claim asks for 2 GiB.
async fn left(on_node: bool, condition: &str) -> Scene {
    let mut scene = Scene::new(|profile| profile.expands_on_node = on_node).await;
    let sidecar = scene.sidecar.take().unwrap();
    sidecar.stop().await.unwrap();
    scene.request("2Gi").await;
    let condition = json!({
        "type": condition,
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let (claims, params) = (scene.rig.claims(), PatchParams::default());
    claims.patch_status("data", &params, &status).await.unwrap();
    scene.gate.writes();
    scene
}

/// The volume's object as it is when the driver has done its part.
async fn volume_grew(scene: &Scene) {
    let grew = json!({
        "metadata": {"annotations": {PRE_RESIZE: "1Gi"}},
        "spec": {"capacity": {"storage": "2Gi"}},
    });
    patch_volume(scene, grew).await;
}

async fn patch_volume(scene: &Scene, patch: Value) {
    let (volumes, params) = (scene.rig.volumes(), PatchParams::default());
    let patch = Patch::Merge(patch);
    volumes.patch(&scene.volume, &params, &patch).await.unwrap();
}

fn start(scene: &mut Scene) {
    scene.sidecar = Some(scene.rig.sidecar_as(run, scene.gate.kubeconfig(), &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_said_to_be_resizing_is_resized() {
    let mut scene = left(false, "Resizing").await;
    start(&mut scene);
    scene.has("2Gi").await;
    assert_eq!(scene.sizes(), [2]);
    scene.says(&[]).await;
    // The condition was there: it is not written again. Fields for the size, where the server has them, were not.
    let mut expected = vec![VOLUME, CLAIM];
    if scene.has_fields().await {
        expected.insert(0, CLAIM);
    }
    assert_eq!(scene.gate.writes(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_object_has_the_new_size_is_handed_over_to_its_node() {
    let mut scene = left(true, "Resizing").await;
    volume_grew(&scene).await;
    start(&mut scene);
    scene.says(&["FileSystemResizePending"]).await;
    // Nothing tells whether the driver was asked: it is asked again.
    assert_eq!(scene.sizes(), [2]);
    scene.node_follows("2Gi").await;
    scene.tidied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_its_node_goes_on_waiting() {
    let mut scene = left(true, "FileSystemResizePending").await;
    volume_grew(&scene).await;
    start(&mut scene);
    // When this one has its volume, the other has been looked at.
    scene.rig.claim("other", json!({})).await;
    scene.rig.bound("other").await;
    assert!(scene.sizes().is_empty());
    scene.says(&["FileSystemResizePending"]).await;
    scene.node_follows("2Gi").await;
    scene.tidied().await;
    assert!(scene.sizes().is_empty());
}
