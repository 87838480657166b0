//! Which class a snapshot is taken with.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeGroupSnapshotClass, VolumeSnapshotClass, names};
use stowage_stage::{create, eventually};

use crate::scene::Scene;

async fn default_class(scene: &Scene, name: &str, driver: &str) {
    let object = json!({
        "metadata": {"name": name, "annotations": {names::SNAPSHOT.default_class: "true"}},
        "driver": driver,
        "deletionPolicy": "Delete",
    });
    let classes = Api::<VolumeSnapshotClass>::all(scene.rig.client.clone());
    create(&classes, object).await;
}

/// Kubernetes' own suite looks for upstream's words in the group's status.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_one_default_class_says_so_in_upstreams_words() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    scene.claim("data", json!({"app": "shop"})).await;
    let group = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"source": {"selector": {"matchLabels": {"app": "shop"}}}},
        })
    };
    create(&scene.groups(), group("none")).await;
    let error = group_error(&scene, "none").await;
    let words = "cannot find default group snapshot class";
    assert!(error.contains(words), "{error}");
    rig.event("none", "SetDefaultGroupSnapshotClassFailed", words)
        .await;

    let mark = names::GROUP_SNAPSHOT.default_class;
    let classes = Api::<VolumeGroupSnapshotClass>::all(rig.client.clone());
    for number in ["one", "two"] {
        let name = format!("{number}-{}", rig.name);
        let object = json!({
            "metadata": {"name": name, "annotations": {mark: "true"}},
            "driver": rig.name,
            "deletionPolicy": "Delete",
        });
        create(&classes, object).await;
    }
    create(&scene.groups(), group("several")).await;
    let error = group_error(&scene, "several").await;
    let words = "2 default snapshot classes were found";
    assert!(error.contains(words), "{error}");
}

async fn group_error(scene: &Scene, name: &str) -> String {
    eventually(&format!("group {name} shows an error"), async || {
        let group = scene.groups().get(name).await.unwrap();
        group.status?.error?.message
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_class_of_the_driver_is_written_down_and_two_are_one_too_many() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    scene.claim("data", Value::Null).await;
    let unnamed = json!({"volumeSnapshotClassName": null});
    scene.snapshot("monday", "data", unnamed.clone()).await;
    let error = scene.error("monday").await;
    let expected = format!("driver `{}` has no default class", rig.name);
    assert!(error.contains(&expected), "{error}");
    let event = rig
        .event("monday", "SetDefaultSnapshotClassFailed", "")
        .await;
    assert_eq!(event, error);

    let (first, second) = (format!("a-{}", rig.name), format!("b-{}", rig.name));
    default_class(&scene, &format!("c-{}", rig.name), "other.test").await;
    default_class(&scene, &first, &rig.name).await;
    let ready = scene.ready("monday").await;
    assert_eq!(ready.spec.volume_snapshot_class_name.as_ref(), Some(&first));

    default_class(&scene, &second, &rig.name).await;
    scene.snapshot("tuesday", "data", unnamed).await;
    let error = scene.error("tuesday").await;
    let expected = format!("leave the mark to one of `{first}`, `{second}`");
    assert!(error.contains(&expected), "{error}");
    let event = rig
        .event("tuesday", "SetDefaultSnapshotClassFailed", "")
        .await;
    assert_eq!(event, error);
    assert_eq!(rig.driver.snapshots().len(), 1, "monday's is not disturbed");

    let unmark = json!({"metadata": {"annotations": {names::SNAPSHOT.default_class: "false"}}});
    let classes = Api::<VolumeSnapshotClass>::all(rig.client.clone());
    let params = PatchParams::default();
    let unmarked = classes.patch(&first, &params, &Patch::Merge(unmark)).await;
    unmarked.unwrap();
    let ready = scene.ready("tuesday").await;
    assert_eq!(ready.spec.volume_snapshot_class_name, Some(second));
    scene.end().await;
}
