//! A driver that attaches nothing.

use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;

use super::scene::Scene;

#[tokio::test]
async fn every_attachment_is_answered_with_one_write_and_without_a_call() {
    let mut scene = Scene::with(|profile| profile.without(Can::PublishUnpublishVolume)).await;
    scene.add_volume("v").await;
    scene.start().await;
    scene.ask("a", "v", "nowhere").await;
    scene.attached("a").await;
    assert_eq!(
        scene.writes(),
        ["PATCH volumeattachments/status after 0 calls"]
    );
    scene.delete::<VolumeAttachment>("a").await;
    scene.goes("a").await;
}

#[tokio::test]
async fn what_an_attaching_version_of_the_driver_left_is_released() {
    let mut scene = Scene::with(|profile| profile.without(Can::PublishUnpublishVolume)).await;
    scene.add_volume("v").await;
    let metadata = json!({ "finalizers": [scene.finalizer()] });
    scene.ask_with("a", "v", "north", metadata).await;
    scene.delete::<VolumeAttachment>("a").await;
    scene.start().await;
    scene.goes("a").await;
    assert_eq!(scene.driver.calls("ControllerUnpublishVolume"), 0);
}
