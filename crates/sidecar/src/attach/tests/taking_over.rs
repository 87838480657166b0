//! What upstream's attacher leaves when it is stopped at any point.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::scene::{Scene, eventually, node_id};
use crate::cluster::attachment::NODE_ID;

/// A volume and an attachment with marks of upstream's: `finalizer`, `annotation`, `attached`.
async fn left_with(marks: &[&str]) -> Scene {
    let scene = Scene::new().await;
    scene.add_volume("v").await;
    let mut metadata = json!({});
    let has = |mark: &str| marks.contains(&mark);
    if has("finalizer") {
        metadata["finalizers"] = json!([scene.finalizer()]);
    }
    if has("annotation") {
        metadata["annotations"][NODE_ID] = json!("north-id");
    }
    scene.ask_with("a", "v", "north", metadata).await;
    if has("attached") {
        let status: Value = json!({ "attached": true, "attachmentMetadata": { "theirs": "1" } });
        scene.set_status("a", status).await;
    }
    scene
}

async fn mark_volume(scene: &Scene) {
    let finalizers = json!(["kubernetes.io/pv-protection", scene.finalizer()]);
    let marks = json!({ "metadata": { "finalizers": finalizers } });
    scene.edit::<PersistentVolume>("v", marks).await;
}

#[tokio::test]
async fn marked_and_not_attached_is_attached() {
    let mut scene = left_with(&["finalizer", "annotation"]).await;
    mark_volume(&scene).await;
    scene.start().await;
    scene.attached("a").await;
    assert_eq!(scene.published(), ["v@north-id"]);
    assert_eq!(
        scene.writes(),
        ["PATCH volumeattachments/status after 1 calls"]
    );
}

#[tokio::test]
async fn attached_is_left_alone() {
    let mut scene = left_with(&["finalizer", "annotation", "attached"]).await;
    mark_volume(&scene).await;
    scene.start().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(scene.writes(), [""; 0]);
    assert_eq!(scene.driver.calls("ControllerPublishVolume"), 0);
}

#[tokio::test]
async fn attached_without_marks_gets_them_before_it_is_too_late() {
    for marks in [&["attached"][..], &["attached", "finalizer"]] {
        let mut scene = left_with(marks).await;
        scene.start().await;
        let marked = |a: &VolumeAttachment| node_id(a) == Some("north-id");
        let attachment = scene.becomes("a", marked).await;
        assert_eq!(attachment.finalizers(), [scene.finalizer()]);
        assert_eq!(
            scene.writes(),
            [
                "PATCH persistentvolumes after 0 calls",
                "PATCH volumeattachments after 0 calls",
            ]
        );
        let kept = attachment.status.unwrap().attachment_metadata.unwrap();
        assert_eq!(kept["theirs"], "1");
    }
}

#[tokio::test]
async fn deleted_with_the_finalizer_is_detached_whether_it_was_attached_or_not() {
    for marks in [
        &["finalizer"][..],
        &["finalizer", "annotation"],
        &["finalizer", "annotation", "attached"],
    ] {
        let mut scene = left_with(marks).await;
        scene.delete::<VolumeAttachment>("a").await;
        scene.start().await;
        scene.goes("a").await;
        assert_eq!(scene.driver.calls("ControllerUnpublishVolume"), 1);
    }
}

#[tokio::test]
async fn a_volume_that_only_the_finalizer_holds_is_let_go() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    mark_volume(&scene).await;
    scene.delete::<PersistentVolume>("v").await;
    let rest = json!({ "metadata": { "finalizers": [scene.finalizer()] } });
    scene.edit::<PersistentVolume>("v", rest).await;
    scene.start().await;
    eventually("an end", async || scene.volume("v").await.is_none()).await;
}
