//! Requests that vanish out of order, or that cannot be read: what they stand for stays.

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeGroupSnapshot, VolumeSnapshot};
use stowage_stage::eventually;

use crate::groups::{group, members, ready};
use crate::scene::Scene;

async fn strip<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) {
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    api.patch(name, &params, &bare).await.unwrap();
}

/// Waits until the controller has heard of all that happened before: a snapshot comes and goes in order.
async fn heard(scene: &Scene) {
    scene.snapshot("later", "data", json!({})).await;
    scene.ready("later").await;
    scene.delete("later").await;
    scene.gone("later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_whose_finalizers_somebody_took_away_leaves_its_data() {
    let scene = Scene::new().await;
    scene.rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    let content = scene.content_of(&scene.ready("monday").await).await;
    strip(&scene.snapshots(), "monday").await;
    scene.delete("monday").await;
    scene.gone("monday").await;
    heard(&scene).await;
    assert_eq!(scene.rig.driver.snapshots().len(), 1);
    let name = content.metadata.name.unwrap();
    let left = scene.rig.contents().get(&name).await.unwrap();
    assert_eq!(left.metadata.deletion_timestamp, None);
    scene.end().await;
}

/// As somebody does who wants to be rid of a namespace.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_torn_away_while_its_deletion_waits_leaves_its_data() {
    let scene = Scene::new().await;
    scene.rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.ready("monday").await;
    let source = json!({"dataSource": {
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday",
    }});
    scene.unbound("restored", Value::Null, source).await;
    scene.set_phase("restored", "Pending").await;
    scene.delete("monday").await;
    scene.rig.event("monday", "SnapshotDeletePending", "").await;
    strip(&scene.snapshots(), "monday").await;
    scene.gone("monday").await;
    heard(&scene).await;
    assert_eq!(scene.rig.driver.snapshots().len(), 1);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_finalizers_somebody_took_away_leaves_its_data() {
    let scene = Scene::new().await;
    scene.rig.group_snapshot_class().await;
    scene.rig.snapshot_class(json!({})).await;
    let shop = json!({"app": "shop"});
    scene.claim("data", shop.clone()).await;
    scene.claim("logs", shop).await;
    group(&scene, "nightly").await;
    ready(&scene, "nightly").await;
    members(&scene).await;
    strip(&scene.groups(), "nightly").await;
    let params = DeleteParams::default();
    scene.groups().delete("nightly", &params).await.unwrap();
    scene.group_is_gone("nightly").await;
    heard(&scene).await;
    assert_eq!(scene.rig.driver.calls("DeleteVolumeGroupSnapshot"), 0);
    assert_eq!(scene.rig.driver.snapshots().len(), 2);
    scene.end().await;
}

/// Another definition of the kind, which lets anything be written into the status.
fn loosen<K: Resource<DynamicType = ()>>(scene: &Scene) {
    let server = scene.rig.server;
    let name = format!("{}.{}", K::plural(&()), K::group(&()));
    let read = ["get", "crd", &name, "--output", "json"];
    let mut definition: Value = serde_json::from_str(&server.kubectl(&read).unwrap()).unwrap();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["status"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    let written = server.kubectl_with_input(&["replace", "-f", "-"], &definition.to_string());
    written.unwrap();
}

/// Writes what no reader of the kind expects, as soon as the server takes it.
async fn say_ready<K: Resource<DynamicType = ()>>(scene: &Scene, name: &str, ready: Value) {
    let resource = ApiResource::erase::<K>(&());
    let client = scene.rig.client.clone();
    let api = Api::<DynamicObject>::namespaced_with(client, &scene.rig.namespace, &resource);
    let status = Patch::Merge(json!({"status": {"readyToUse": ready}}));
    let params = PatchParams::default();
    eventually("the server takes what it is given", async || {
        let written = api.patch_status(name, &params, &status).await.ok()?;
        (written.data["status"]["readyToUse"] == ready).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_read_is_not_gone() {
    let scene = Scene::new().await;
    scene.rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.ready("monday").await;
    loosen::<VolumeSnapshot>(&scene);
    say_ready::<VolumeSnapshot>(&scene, "monday", json!("yes")).await;
    heard(&scene).await;
    assert_eq!(scene.rig.driver.snapshots().len(), 1);
    say_ready::<VolumeSnapshot>(&scene, "monday", json!(true)).await;
    scene.delete("monday").await;
    scene.gone("monday").await;
    scene.nothing_left().await;
    scene.end().await;
}

/// Its members are not free to go, not even to a controller that has never read it.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_cannot_be_read_is_not_gone() {
    let mut scene = Scene::new().await;
    scene.rig.group_snapshot_class().await;
    scene.rig.snapshot_class(json!({})).await;
    let shop = json!({"app": "shop"});
    scene.claim("data", shop.clone()).await;
    scene.claim("logs", shop).await;
    group(&scene, "nightly").await;
    ready(&scene, "nightly").await;
    let first = members(&scene).await[0].metadata.name.clone().unwrap();
    loosen::<VolumeGroupSnapshot>(&scene);
    say_ready::<VolumeGroupSnapshot>(&scene, "nightly", json!("yes")).await;
    heard(&scene).await;
    assert_eq!(scene.rig.driver.snapshots().len(), 2);
    scene.controller.take().unwrap().stop().await.unwrap();
    scene.sidecar.take().unwrap().stop().await.unwrap();
    scene.start();
    scene.delete(&first).await;
    let text = scene.rig.event(&first, "SnapshotDeletePending", "").await;
    assert!(text.contains("cannot be read"), "{text}");
    say_ready::<VolumeGroupSnapshot>(&scene, "nightly", json!(true)).await;
    let params = DeleteParams::default();
    scene.groups().delete("nightly", &params).await.unwrap();
    scene.group_is_gone("nightly").await;
    scene.nothing_left().await;
    scene.end().await;
}
