//! Contents that the Go sidecar left in the middle of its work, and contents that people wrote by hand.

use serde_json::json;
use stowage_api::snapshot::names;
use stowage_csi::proto::csi::CreateSnapshotRequest;
use stowage_csi::proto::csi::controller_server::Controller;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, is_marked};

/// Has the driver take a snapshot, as another sidecar would have asked for it.
async fn taken(rig: &Rig, uid: &str, volume: &str) -> String {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: format!("snapshot-{uid}-{}", rig.namespace),
        ..CreateSnapshotRequest::default()
    };
    let request = tonic::Request::new(request);
    let made = Controller::create_snapshot(&rig.driver, request).await;
    made.unwrap().into_inner().snapshot.unwrap().snapshot_id
}

/// The annotations while the driver is being asked.
fn marked() -> serde_json::Value {
    json!({names::SNAPSHOT.being_created: "yes"})
}

/// A content whose snapshot the driver has, and that says that the driver is being asked for it.
async fn being_taken() -> (Rig, String, String) {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let volume = rig.volume("data").await;
    let handle = taken(&rig, "u1", &volume).await;
    let content = json!({
        "metadata": {"annotations": marked()},
        "spec": {"source": {"volumeHandle": volume}},
    });
    let content = rig.content("u1", content).await;
    (rig, content, handle)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_was_being_taken_is_found_by_its_name() {
    let (rig, content, handle) = being_taken().await;
    let sidecar = rig.sidecar(run, &[]);
    let ready = rig.content_is_ready(&content).await;
    assert_eq!(ready.status.unwrap().snapshot_handle, Some(handle));
    assert_eq!(rig.driver.snapshots().len(), 1);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_beside_a_status_is_all_that_was_left_to_do() {
    let (rig, content, handle) = being_taken().await;
    let status = kube::api::Patch::Merge(json!({"status": {
        "snapshotHandle": handle, "creationTime": 7, "restoreSize": 9, "readyToUse": true,
    }}));
    let (contents, params) = (rig.contents(), kube::api::PatchParams::default());
    let written = contents.patch_status(&content, &params, &status).await;
    let status = written.unwrap().status;
    let calls = rig.driver.calls("CreateSnapshot");
    let sidecar = rig.sidecar(run, &[]);
    let freed = rig
        .content_that(&content, "has no mark", |content| !is_marked(content))
        .await;
    assert_eq!(freed.status, status);
    assert_eq!(rig.driver.calls("CreateSnapshot"), calls);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_that_was_being_deleted_is_deleted_with_its_snapshot() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let volume = rig.volume("data").await;
    let handle = taken(&rig, "u1", &volume).await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    let status = kube::api::Patch::Merge(json!({"status": {
        "snapshotHandle": handle, "creationTime": 7, "restoreSize": 9, "readyToUse": true,
    }}));
    let (contents, params) = (rig.contents(), kube::api::PatchParams::default());
    let written = contents.patch_status(&content, &params, &status).await;
    written.unwrap();
    rig.delete_content(&content).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.content_is_gone(&content).await;
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_written_by_hand_needs_neither_class_nor_finalizer() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let volume = rig.volume("data").await;
    let handle = taken(&rig, "u1", &volume).await;
    // As the documentation of Kubernetes shows it.
    let by_hand = json!({
        "metadata": {"finalizers": null},
        "spec": {
            "source": {"snapshotHandle": handle},
            "volumeSnapshotClassName": null,
            "volumeSnapshotRef": {"uid": null},
        },
    });
    let content = rig.content("hand", by_hand).await;
    let sidecar = rig.sidecar(run, &[]);
    let status = rig.content_is_ready(&content).await.status.unwrap();
    assert_eq!(status.snapshot_handle, Some(handle));
    assert_eq!(rig.driver.snapshots().len(), 1);
    sidecar.stop().await.unwrap();
}
