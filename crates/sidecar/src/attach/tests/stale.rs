//! Decisions from a cache that lags behind.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt as _;
use serde_json::json;
use stowage_kubernetes::queue::Verdict;

use super::scene::{FOREIGN, Scene, node_id};
use crate::attach::queues::Operation;

async fn asked() -> Scene {
    let scene = Scene::new().await;
    scene.add_volume("v").await;
    scene.ask("a", "v", "north").await;
    scene
}

#[tokio::test]
async fn nobody_loses_a_finalizer_that_we_had_not_heard_of() {
    let scene = asked().await;
    let worker = scene.deaf_worker().await;
    let theirs = json!({ "metadata": {
        "finalizers": [FOREIGN],
        "annotations": { "theirs": "yes" },
    }});
    scene.edit::<VolumeAttachment>("a", theirs.clone()).await;
    scene.edit::<PersistentVolume>("v", theirs).await;
    let verdict = worker.work(Operation::Attach, scene.key("a")).await;
    assert!(matches!(verdict, Verdict::Done), "{verdict:?}");
    let both = [FOREIGN.to_owned(), scene.finalizer()];
    let attachment = scene.attached("a").await;
    assert_eq!(attachment.finalizers(), both);
    assert_eq!(attachment.annotations()["theirs"], "yes");
    assert_eq!(node_id(&attachment), Some("north-id"));
    assert_eq!(scene.volume("v").await.unwrap().finalizers(), both);
}

#[tokio::test]
async fn a_finalizer_that_is_off_by_now_does_not_come_back() {
    let scene = asked().await;
    let both = json!({ "metadata": { "finalizers": [FOREIGN, scene.finalizer()] } });
    let ours = json!({ "metadata": { "finalizers": [scene.finalizer()] } });
    scene.edit::<VolumeAttachment>("a", both.clone()).await;
    scene.edit::<PersistentVolume>("v", both).await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.delete::<PersistentVolume>("v").await;
    let worker = scene.deaf_worker().await;
    scene.edit::<VolumeAttachment>("a", ours.clone()).await;
    let verdict = Arc::clone(&worker)
        .work(Operation::Detach, scene.key("a"))
        .await;
    assert!(matches!(verdict, Verdict::Done), "{verdict:?}");
    assert_eq!(scene.attachment("a").await, None);

    // Of its attachment's end it hears, of the other finalizer's it does not.
    worker.cluster.attachments.store().remove(&scene.key("a"));
    scene.edit::<PersistentVolume>("v", ours).await;
    let verdict = worker.release_volume(scene.key("v")).await;
    assert!(matches!(verdict, Verdict::Done), "{verdict:?}");
    assert_eq!(scene.volume("v").await, None);
}

#[tokio::test]
async fn a_namesake_is_decided_about_anew() {
    let scene = asked().await;
    let worker = scene.deaf_worker().await;
    scene.delete::<VolumeAttachment>("a").await;
    // The same name, and another volume.
    scene.add_volume("w").await;
    scene.ask("a", "w", "north").await;
    let verdict = worker.work(Operation::Attach, scene.key("a")).await;
    assert!(matches!(verdict, Verdict::Done), "{verdict:?}");
    scene.attached("a").await;
    assert_eq!(scene.published(), ["w@north-id"]);
}

#[tokio::test]
async fn a_status_is_not_written_on_a_namesake() {
    let scene = asked().await;
    let marks = json!({ "metadata": {
        "finalizers": [scene.finalizer()],
        "annotations": { crate::cluster::attachment::NODE_ID: "north-id" },
    }});
    scene.edit::<VolumeAttachment>("a", marks.clone()).await;
    let volume = json!({ "metadata": { "finalizers": [scene.finalizer()] } });
    scene.edit::<PersistentVolume>("v", volume).await;
    let worker = scene.deaf_worker().await;
    let strip = json!({ "metadata": { "finalizers": null } });
    scene.edit::<VolumeAttachment>("a", strip).await;
    scene.delete::<VolumeAttachment>("a").await;
    // Nothing of it is marked, and the volume of its name does not exist.
    scene.ask("a", "missing", "north").await;
    let verdict = worker.work(Operation::Attach, scene.key("a")).await;
    assert!(matches!(verdict, Verdict::After(..)), "{verdict:?}");
    let attachment = scene.attachment("a").await.unwrap();
    assert!(!attachment.status.unwrap().attached);
}
