use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::json;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, MountVolume, access_mode,
};
use stowage_csi::proto::csi::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, ListVolumesRequest,
    VolumeCapability,
};
use stowage_memory_driver::Mishap;
use tonic::Code;

use super::scene::{Scene, eventually};

/// The storage forgets where the volume is.
async fn detach_behind_our_back(scene: &Scene) {
    let volume = scene.driver.volumes().pop().unwrap();
    let request = ControllerUnpublishVolumeRequest {
        volume_id: volume.id,
        node_id: "north-id".to_owned(),
        ..ControllerUnpublishVolumeRequest::default()
    };
    let mut controller = scene.controller();
    let done = controller.controller_unpublish_volume(request).await;
    done.unwrap();
    assert_eq!(scene.published(), [""; 0]);
}

#[tokio::test]
async fn what_the_driver_no_longer_has_attached_is_attached_again() {
    let every = Duration::from_millis(200);
    let mut scene = Scene::new().await.comparing_every(every);
    scene.add_volume("v").await;
    scene.ask("a", "v", "north").await;
    scene.start().await;
    scene.attached("a").await;
    // Lists that fail do no harm.
    let refusal = Mishap::refuse(Code::Internal, "no list").times(2);
    scene.driver.upset("ListVolumes", refusal);
    detach_behind_our_back(&scene).await;
    eventually("another attach", async || {
        scene.published() == ["v@north-id"]
    })
    .await;
    // And what agrees is left alone.
    tokio::time::sleep(every * 3).await;
    let calls = scene.driver.calls("ControllerPublishVolume");
    tokio::time::sleep(every * 3).await;
    assert_eq!(scene.driver.calls("ControllerPublishVolume"), calls);
}

#[tokio::test]
async fn as_many_volumes_are_listed_at_a_time_as_asked_for() {
    let every = Duration::from_millis(200);
    let scene = Scene::new().await.comparing_every(every);
    let mut scene = scene.listing_by(1);
    scene.add_volume("v").await;
    scene.add_volume("w").await;
    scene.start().await;
    eventually("both pages are asked for", async || {
        let asked = scene.driver.requests::<ListVolumesRequest>();
        let pages: HashSet<_> = asked.iter().map(|one| &one.starting_token).collect();
        assert!(asked.iter().all(|one| one.max_entries == 1));
        pages.len() == 2
    })
    .await;
}

#[tokio::test]
async fn a_driver_that_cannot_say_is_not_asked() {
    let without = Can::ListVolumesPublishedNodes;
    let scene = Scene::with(|profile| profile.without(without)).await;
    let mut scene = scene.comparing_every(Duration::from_millis(100));
    scene.start().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(scene.driver.calls("ListVolumes"), 0);
}

/// Attaches a volume behind the cluster's back: as a process leaves it that died before it could detach what an
/// attachment stood for that was taken away.
async fn publish(scene: &Scene, name: &str, node_id: &str) {
    let volumes = scene.driver.volumes();
    let volume = volumes.iter().find(|volume| volume.name == name).unwrap();
    let mode = AccessMode {
        mode: access_mode::Mode::MultiNodeMultiWriter.into(),
    };
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.id.clone(),
        node_id: node_id.to_owned(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(mode),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        ..ControllerPublishVolumeRequest::default()
    };
    let mut controller = scene.controller();
    controller.controller_publish_volume(request).await.unwrap();
}

#[tokio::test]
async fn what_is_attached_for_nobody_is_detached_once_its_volume_is_to_go() {
    let every = Duration::from_millis(200);
    let mut scene = Scene::new().await.comparing_every(every);
    for (volume, phase, reclaim) in [
        ("leaving", "Released", "Delete"),
        ("kept", "Released", "Retain"),
        ("used", "Bound", "Delete"),
    ] {
        scene.add_volume(volume).await;
        let finalizers = json!({"finalizers": [scene.finalizer()]});
        let spec = json!({"persistentVolumeReclaimPolicy": reclaim});
        let change = json!({"metadata": finalizers, "spec": spec});
        scene.edit::<PersistentVolume>(volume, change).await;
        scene.set_phase(volume, phase).await;
        publish(&scene, volume, "north-id").await;
    }
    // Another cluster may have it.
    publish(&scene, "leaving", "far-id").await;
    scene.start().await;
    let left = ["kept@north-id", "leaving@far-id", "used@north-id"];
    eventually("the stray is detached", async || {
        let mut published = scene.published();
        published.sort();
        published == left
    })
    .await;
    // And nothing else is.
    tokio::time::sleep(every * 3).await;
    assert_eq!(scene.published().len(), left.len());
}
