use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt as _;
use serde_json::json;
use stowage_csi::proto::csi::ControllerPublishVolumeRequest;
use stowage_memory_driver::Mishap;
use tonic::Code;

use super::scene::{FOREIGN, Scene, attach_error, eventually, node_id};

#[tokio::test]
async fn an_attach_is_three_writes_and_the_marks_come_first() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    // Before the role starts: whether it hears of a new node or of a new attachment first is left to chance.
    scene.add_node("south").await;
    scene.ask("a", "v", "north").await;
    scene.start().await;
    let attachment = scene.attached("a").await;
    assert_eq!(
        scene.writes(),
        [
            "PATCH persistentvolumes after 0 calls",
            "PATCH volumeattachments after 0 calls",
            "PATCH volumeattachments/status after 1 calls",
        ]
    );
    assert_eq!(scene.published(), ["v@north-id"]);
    assert_eq!(node_id(&attachment), Some("north-id"));
    assert_eq!(attachment.finalizers(), [scene.finalizer()]);
    let context = attachment.status.unwrap().attachment_metadata.unwrap();
    assert!(context["device"].starts_with("/dev/memory/"), "{context:?}");
    let volume = scene.volume("v").await.unwrap();
    assert_eq!(
        volume.finalizers(),
        ["kubernetes.io/pv-protection".to_owned(), scene.finalizer()]
    );

    // The volume is marked already.
    scene.ask("b", "v", "south").await;
    scene.attached("b").await;
    assert_eq!(
        scene.writes(),
        [
            "PATCH volumeattachments after 1 calls",
            "PATCH volumeattachments/status after 2 calls",
        ]
    );
    // Nothing is written for what is as it should be, whoever starts.
    scene.stop().await;
    scene.start().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(scene.writes(), [""; 0]);
}

#[tokio::test]
async fn what_others_wrote_on_the_attachment_stays() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    let metadata = json!({ "finalizers": [FOREIGN], "annotations": { "theirs": "yes" } });
    scene.ask_with("a", "v", "north", metadata).await;
    scene.start().await;
    let attachment = scene.attached("a").await;
    assert_eq!(
        attachment.finalizers(),
        [FOREIGN.to_owned(), scene.finalizer()]
    );
    assert_eq!(attachment.annotations()["theirs"], "yes");
    assert_eq!(node_id(&attachment), Some("north-id"));
}

#[tokio::test]
async fn a_volume_that_many_nodes_want_at_once_is_marked_once() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    for node in ["south", "east"] {
        scene.add_node(node).await;
    }
    for node in ["north", "south", "east"] {
        scene.ask(node, "v", node).await;
    }
    scene.start().await;
    for node in ["north", "south", "east"] {
        scene.attached(node).await;
    }
    let volume = scene.volume("v").await.unwrap();
    assert_eq!(volume.finalizers().len(), 2, "{:?}", volume.finalizers());
    assert_eq!(scene.published().len(), 3);
}

#[tokio::test]
async fn errors_are_shown_and_their_echo_ends_no_pause() {
    let pause = Duration::from_millis(400);
    let mut scene = Scene::new().await.retrying_after(pause);
    scene.add_volume("v").await;
    let refusal = format!("no {}", "x".repeat(5000));
    let refusal = Mishap::refuse(Code::Internal, &refusal).times(3);
    scene.driver.upset("ControllerPublishVolume", refusal);
    scene.start().await;
    let start = Instant::now();
    scene.ask("a", "v", "north").await;
    let shown = |a: &VolumeAttachment| attach_error(a).is_some_and(|e| e.contains("Internal"));
    let attachment = scene.becomes("a", shown).await;
    let message = attach_error(&attachment).unwrap();
    assert!(message.contains("code = Internal desc = no xxx"));
    assert!(message.len() <= 1024, "the server takes no more");
    // Whoever writes it, it is no reason to try again.
    let mut echo = 0;
    while scene.driver.calls("ControllerPublishVolume") < 4 {
        let error = json!({ "message": format!("echo {echo}") });
        scene.set_status("a", json!({ "attachError": error })).await;
        tokio::time::sleep(pause / 8).await;
        echo += 1;
    }
    let waited = start.elapsed();
    assert!(waited >= pause * 7, "1 + 2 + 4 pauses, not {waited:?}");
    let cured = |a: &VolumeAttachment| attach_error(a).is_none();
    scene.becomes("a", cured).await;
    assert_eq!(scene.driver.calls("ControllerPublishVolume"), 4);
}

#[tokio::test]
async fn a_volume_that_is_being_deleted_is_refused_and_holds_nothing() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    scene.delete::<PersistentVolume>("v").await;
    scene.ask("a", "v", "north").await;
    scene.start().await;
    let refused = |a: &VolumeAttachment| attach_error(a).is_some_and(|e| e.contains("deleted"));
    let attachment = scene.becomes("a", refused).await;
    assert!(attachment.finalizers().is_empty());
    assert_eq!(scene.driver.calls("ControllerPublishVolume"), 0);
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
}

#[tokio::test]
async fn a_node_may_be_registered_later() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    scene.start().await;
    scene.ask("a", "v", "late").await;
    let unknown = |a: &VolumeAttachment| {
        attach_error(a).is_some_and(|e| e.contains("not registered on node"))
    };
    scene.becomes("a", unknown).await;
    scene.add_node("late").await;
    scene.attached("a").await;
    assert_eq!(scene.published(), ["v@late-id"]);
}

#[tokio::test]
async fn a_missing_secret_is_named_and_read_when_it_is_there() {
    let pause = Duration::from_millis(300);
    let mut scene = Scene::new().await.retrying_after(pause);
    let csi = json!({ "controllerPublishSecretRef": scene.secret("key") });
    scene.add_volume_with("v", csi).await;
    scene.start().await;
    scene.ask("a", "v", "north").await;
    let named = |a: &VolumeAttachment| attach_error(a).is_some_and(|e| e.contains("-key`"));
    let attachment = scene.becomes("a", named).await;
    assert!(attachment.finalizers().is_empty(), "nothing is held yet");
    scene.add_secret("key", json!({ "password": "open" })).await;
    scene.attached("a").await;
    let request = scene
        .driver
        .last_request::<ControllerPublishVolumeRequest>();
    assert_eq!(request.unwrap().secrets["password"], "open");
}

/// Somebody strips the finalizer and deletes the attachment while the driver is at work.
async fn take_away_in_flight(scene: &Scene) {
    let slow = Mishap::delay(Duration::from_secs(1)).once();
    scene.driver.upset("ControllerPublishVolume", slow);
    scene.ask("a", "v", "north").await;
    eventually("a call", async || {
        scene.driver.calls("ControllerPublishVolume") == 1
    })
    .await;
    let strip = json!({ "metadata": { "finalizers": null } });
    scene.edit::<VolumeAttachment>("a", strip).await;
    scene.delete::<VolumeAttachment>("a").await;
}

#[tokio::test]
async fn an_attachment_taken_away_by_force_is_not_left_attached() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    scene.start().await;
    take_away_in_flight(&scene).await;
    eventually("an undo", async || {
        scene.driver.calls("ControllerUnpublishVolume") == 1
    })
    .await;
    eventually("an end", async || scene.published().is_empty()).await;
}

#[tokio::test]
async fn a_namesake_is_not_taken_for_the_one_before() {
    let mut scene = Scene::new().await;
    scene.add_volume("v").await;
    scene.start().await;
    take_away_in_flight(&scene).await;
    scene.ask("a", "v", "north").await;
    let attachment = scene.attached("a").await;
    assert_eq!(attachment.finalizers(), [scene.finalizer()]);
    assert_eq!(node_id(&attachment), Some("north-id"));
    assert_eq!(scene.published(), ["v@north-id"]);
}
