use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt as _;
use serde_json::json;
use stowage_csi::proto::csi::ControllerUnpublishVolumeRequest;
use stowage_memory_driver::{Mishap, Moment, Trouble};
use tonic::Code;

use super::scene::{FOREIGN, Scene, detach_error, eventually};

/// One volume, attached to the node in the north.
async fn attached() -> Scene {
    let mut scene = Scene::new()
        .await
        .retrying_after(Duration::from_millis(300));
    scene.add_volume("v").await;
    scene.ask("a", "v", "north").await;
    scene.start().await;
    scene.attached("a").await;
    scene.writes();
    scene
}

#[tokio::test]
async fn a_detach_is_one_write_after_the_driver_is_done() {
    let scene = attached().await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
    assert_eq!(scene.published(), [""; 0]);
    assert_eq!(scene.writes(), ["PATCH volumeattachments after 2 calls"]);
}

#[tokio::test]
async fn what_others_hold_is_released_first_and_then_said_to_be_detached() {
    let scene = attached().await;
    let finalizers = json!([FOREIGN, scene.finalizer()]);
    let hold = json!({ "metadata": { "finalizers": finalizers } });
    scene.edit::<VolumeAttachment>("a", hold).await;
    scene.delete::<VolumeAttachment>("a").await;
    let detached = |a: &VolumeAttachment| a.status.as_ref().is_some_and(|s| !s.attached);
    let attachment = scene.becomes("a", detached).await;
    assert_eq!(attachment.finalizers(), [FOREIGN]);
    assert_eq!(attachment.status.unwrap().attachment_metadata, None);
    assert_eq!(
        scene.writes(),
        [
            "PATCH volumeattachments after 2 calls",
            "PATCH volumeattachments/status after 2 calls",
        ]
    );
    assert_eq!(scene.published(), [""; 0]);
}

#[tokio::test]
async fn a_node_that_is_gone_is_detached_by_the_id_on_the_attachment() {
    let scene = attached().await;
    scene.remove_node("north").await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
    assert_eq!(scene.published(), [""; 0]);
}

#[tokio::test]
async fn a_node_that_took_over_the_name_is_not_the_one_to_detach() {
    let scene = attached().await;
    scene.remove_node("north").await;
    scene
        .create::<k8s_openapi::api::storage::v1::CSINode>(json!({
            "metadata": { "name": format!("{}-north", scene.name) },
            "spec": { "drivers": [{ "name": scene.name, "nodeID": "reborn-id", "topologyKeys": [] }] },
        }))
        .await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
    let request = scene
        .driver
        .last_request::<ControllerUnpublishVolumeRequest>();
    assert_eq!(request.unwrap().node_id, "north-id");
    assert_eq!(scene.published(), [""; 0]);
}

#[tokio::test]
async fn a_lost_node_needs_a_person_who_is_told_what_to_do() {
    let scene = attached().await;
    let forget = json!({ "metadata": { "annotations": null } });
    scene.edit::<VolumeAttachment>("a", forget).await;
    scene.remove_node("north").await;
    scene.delete::<VolumeAttachment>("a").await;
    let told = |a: &VolumeAttachment| {
        detach_error(a).is_some_and(|e| e.contains("no annotation") && e.contains("remove final"))
    };
    scene.becomes("a", told).await;
    let remember = json!({ "metadata": { "annotations": { crate::cluster::attachment::NODE_ID: "north-id" } } });
    scene.edit::<VolumeAttachment>("a", remember).await;
    scene.goes("a").await;
    assert_eq!(scene.published(), [""; 0]);
}

#[tokio::test]
async fn a_lost_volume_needs_a_person_who_is_told_what_to_do() {
    let mut scene = Scene::new().await;
    let metadata = json!({ "finalizers": [scene.finalizer()] });
    scene.ask_with("a", "missing", "north", metadata).await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.start().await;
    let told = |a: &VolumeAttachment| {
        detach_error(a).is_some_and(|e| e.contains("is gone") && e.contains("remove final"))
    };
    scene.becomes("a", told).await;
    assert_eq!(scene.driver.calls("ControllerUnpublishVolume"), 0);
}

#[tokio::test]
async fn a_detach_that_fails_is_shown_and_tried_again() {
    let scene = attached().await;
    let refusal = Mishap::refuse(Code::Internal, "not now").times(2);
    scene.driver.upset("ControllerUnpublishVolume", refusal);
    scene.delete::<VolumeAttachment>("a").await;
    let shown = |a: &VolumeAttachment| detach_error(a).is_some_and(|e| e.contains("not now"));
    let attachment = scene.becomes("a", shown).await;
    assert_eq!(attachment.finalizers(), [scene.finalizer()]);
    scene.goes("a").await;
    assert_eq!(scene.driver.calls("ControllerUnpublishVolume"), 3);
    let writes = scene.writes();
    assert_eq!(
        writes.len(),
        2,
        "the same error is written once: {writes:?}"
    );
}

#[tokio::test]
async fn detaches_that_hang_keep_no_attach_waiting() {
    // Longer than the test takes: whoever waits for one of them waits in vain.
    let hour = Duration::from_secs(3600);
    let mut scene = Scene::new().await.with_timeout(hour);
    scene.add_volume("v").await;
    scene.add_volume("w").await;
    for number in 0..100 {
        let metadata = json!({
            "finalizers": [scene.finalizer()],
            "annotations": { crate::cluster::attachment::NODE_ID: format!("n{number}") },
        });
        let name = format!("old-{number}");
        scene.ask_with(&name, "v", "gone", metadata).await;
        scene.delete::<VolumeAttachment>(&name).await;
    }
    let hang = Mishap::hang();
    scene.driver.upset("ControllerUnpublishVolume", hang);
    scene.start().await;
    eventually("all workers hang", async || {
        scene.driver.most_at_once("ControllerUnpublishVolume") == 3
    })
    .await;
    scene.ask("a", "w", "north").await;
    scene.attached("a").await;
    for line in [
        "workqueue_depth{name=\"csi-attacher-va-detach\"} 97",
        "workqueue_depth{name=\"csi-attacher-va\"} 0",
    ] {
        eventually(line, async || {
            scene.metrics.encode().unwrap().contains(line)
        })
        .await;
    }
    assert_eq!(scene.driver.calls("ControllerUnpublishVolume"), 3);
}

#[tokio::test]
async fn what_is_deleted_while_it_is_attached_is_detached_right_after() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    scene.start().await;
    let slow = Mishap::delay(Duration::from_secs(1)).once();
    scene.driver.upset("ControllerPublishVolume", slow);
    scene.ask("a", "v", "north").await;
    eventually("a call", async || {
        scene.driver.calls("ControllerPublishVolume") == 1
    })
    .await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
    assert_eq!(scene.published(), [""; 0]);
    assert_eq!(
        scene.writes(),
        [
            "PATCH persistentvolumes after 0 calls",
            "PATCH volumeattachments after 0 calls",
            // Once, after both calls: the two never ran side by side, and nobody was told of an attachment.
            "PATCH volumeattachments after 2 calls",
        ]
    );
}

#[tokio::test]
async fn an_attach_without_an_answer_is_detached_all_the_same() {
    let mut scene = Scene::new().await.with_timeout(Duration::from_millis(500));
    scene.add_volume("v").await;
    let silent = Mishap::new(Moment::After, Trouble::Hang);
    scene.driver.upset("ControllerPublishVolume", silent);
    scene.start().await;
    scene.ask("a", "v", "north").await;
    eventually("an attachment", async || !scene.published().is_empty()).await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
    assert_eq!(scene.published(), [""; 0]);
}

#[tokio::test]
async fn a_deleted_volume_goes_when_its_last_attachment_does() {
    let scene = attached().await;
    let held = json!({ "metadata": { "finalizers": [FOREIGN, scene.finalizer()] } });
    scene.edit::<PersistentVolume>("v", held).await;
    scene.delete::<PersistentVolume>("v").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let volume = scene.volume("v").await.unwrap();
    assert_eq!(volume.finalizers().len(), 2, "it is attached");
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
    eventually("a release", async || {
        let volume = scene.volume("v").await.unwrap();
        volume.finalizers() == [FOREIGN]
    })
    .await;
}
