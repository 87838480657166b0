//! Objects that the Go controllers left in the middle of their work are gone on with.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_api::snapshot::names;
use stowage_stage::create;

use crate::scene::Scene;
use crate::taking::released;

/// A claim, its snapshot and the content as upstream's controller leaves them when it dies after it has made the
/// content. Returns the content's name.
async fn left(scene: &Scene, annotations: Value) -> String {
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    let handle = scene.claim("data", Value::Null).await;
    let params = PatchParams::default();
    let kept = json!({"metadata": {"finalizers": [
        "kubernetes.io/pvc-protection", names::CLAIM_AS_SOURCE,
    ]}});
    let kept = Patch::Merge(kept);
    scene.claims().patch("data", &params, &kept).await.unwrap();

    let snapshot = scene.snapshot("monday", "data", json!({})).await;
    let uid = snapshot.metadata.uid.unwrap();
    let kept = json!({"metadata": {"finalizers": [
        names::SNAPSHOT_AS_SOURCE, names::SNAPSHOT_BOUND,
    ]}});
    let snapshots = scene.snapshots();
    let kept = Patch::Merge(kept);
    snapshots.patch("monday", &params, &kept).await.unwrap();

    let content = format!("snapcontent-{uid}");
    let object = json!({
        "metadata": {
            "name": content,
            "annotations": annotations,
            "finalizers": [names::SNAPSHOT.finalizer],
        },
        "spec": {
            "deletionPolicy": "Delete",
            "driver": rig.name,
            "source": {"volumeHandle": handle},
            "volumeSnapshotClassName": rig.name,
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                "namespace": rig.namespace, "name": "monday", "uid": uid, "resourceVersion": "1",
            },
        },
    });
    create(&rig.contents(), object).await;
    content
}

/// What the snapshot said at that moment.
async fn bound(scene: &Scene, content: &str) {
    let status = Patch::Merge(json!({"status": {
        "boundVolumeSnapshotContentName": content, "readyToUse": false,
    }}));
    let (snapshots, params) = (scene.snapshots(), PatchParams::default());
    let written = snapshots.patch_status("monday", &params, &status).await;
    written.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_in_the_middle_is_finished_and_its_claim_released() {
    let mut scene = Scene::quiet().await;
    let mark = json!({names::SNAPSHOT.being_created: "yes"});
    let content = left(&scene, mark).await;
    bound(&scene, &content).await;
    scene.start();
    let ready = scene.ready("monday").await;
    let found = scene.content_of(&ready).await;
    assert_eq!(found.metadata.name, Some(content));
    assert_eq!(scene.rig.driver.snapshots().len(), 1);
    released(&scene, "data").await;
    scene.delete("monday").await;
    scene.gone("monday").await;
    scene.nothing_left().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_that_its_snapshot_does_not_know_yet_is_found() {
    let mut scene = Scene::quiet().await;
    let content = left(&scene, Value::Null).await;
    scene.start();
    let ready = scene.ready("monday").await;
    let found = scene.content_of(&ready).await;
    assert_eq!(found.metadata.name, Some(content));
    assert_eq!(scene.rig.driver.snapshots().len(), 1);
    released(&scene, "data").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_in_the_middle_is_finished() {
    let mut scene = Scene::quiet().await;
    let content = left(&scene, json!({names::SNAPSHOT.being_created: "yes"})).await;
    bound(&scene, &content).await;
    // The user gave up, and upstream's controller has told the content before it died.
    scene.delete("monday").await;
    let told = json!({"metadata": {"annotations": {names::SNAPSHOT.being_deleted: "yes"}}});
    let (contents, params) = (scene.rig.contents(), PatchParams::default());
    let told = contents.patch(&content, &params, &Patch::Merge(told)).await;
    told.unwrap();
    let params = DeleteParams::default();
    contents.delete(&content, &params).await.unwrap();
    scene.start();
    scene.gone("monday").await;
    scene.nothing_left().await;
    released(&scene, "data").await;
    scene.end().await;
}
