//! What cannot be done is told with cause and remedy, and disturbs nothing else.

use serde_json::{Value, json};
use stowage_sidecar::controller::run;

use crate::scene::{Scene, controller};
use crate::taking::released;

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_is_told_and_can_be_mended() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene
        .claim_of("foreign", "other.test", "v", Value::Null)
        .await;
    scene.unbound("pending", Value::Null, json!({})).await;

    scene
        .snapshot("of-nothing", "no-such-claim", json!({}))
        .await;
    scene.snapshot("of-pending", "pending", json!({})).await;
    scene.snapshot("of-foreign", "foreign", json!({})).await;
    let other = json!({"volumeSnapshotClassName": "no-such-class"});
    scene.snapshot("no-class", "data", other).await;
    let missing = json!({"source": {
        "persistentVolumeClaimName": null, "volumeSnapshotContentName": "nowhere",
    }});
    scene.snapshot("no-content", "", missing).await;
    for (name, reason, text) in [
        (
            "of-nothing",
            "SnapshotContentCreationFailed",
            "claim `no-such-claim` does not exist",
        ),
        (
            "of-pending",
            "SnapshotContentCreationFailed",
            "claim `pending` is not bound",
        ),
        (
            "of-foreign",
            "SnapshotContentCreationFailed",
            "is of driver `other.test`",
        ),
        (
            "no-class",
            "GetSnapshotClassFailed",
            "class `no-such-class` does not exist",
        ),
        (
            "no-content",
            "SnapshotContentMissing",
            "no content `nowhere`",
        ),
    ] {
        let error = scene.error(name).await;
        assert!(error.contains(text), "{name}: {error}");
        assert_eq!(rig.event(name, reason, "").await, error);
        let snapshot = scene.snapshots().get(name).await.unwrap();
        assert_eq!(snapshot.status.unwrap().ready_to_use, Some(false));
    }
    assert_eq!(rig.driver.calls("CreateSnapshot"), 0);

    // A good one beside them, and the claim is not held by the bad ones' existence alone.
    scene.snapshot("good", "data", json!({})).await;
    scene.ready("good").await;
    // What was missing comes.
    scene.claim("no-such-claim", Value::Null).await;
    scene.ready("of-nothing").await;
    for name in [
        "of-pending",
        "of-foreign",
        "no-class",
        "no-content",
        "good",
        "of-nothing",
    ] {
        scene.delete(name).await;
        scene.gone(name).await;
    }
    released(&scene, "data").await;
    scene.nothing_left().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_of_somebody_else_is_not_taken_over() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    let theirs = json!({"spec": {"source": {"snapshotHandle": "s"}, "deletionPolicy": "Retain"}});
    let content = rig.content("theirs", theirs).await;
    let source = json!({"source": {
        "persistentVolumeClaimName": null, "volumeSnapshotContentName": content,
    }});
    scene.snapshot("greedy", "", source).await;
    let error = scene.error("greedy").await;
    assert!(
        error.contains("is bound to a different snapshot"),
        "{error}"
    );
    rig.event("greedy", "SnapshotContentMisbound", "").await;
    scene.delete("greedy").await;
    scene.gone("greedy").await;
    let left = rig.contents().get(&content).await.unwrap();
    let annotations = left.metadata.annotations.unwrap_or_default();
    assert!(annotations.is_empty(), "{annotations:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_snapshot_whose_content_was_taken_away_says_so() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    let ready = scene.ready("monday").await;
    let content = scene.content_of(&ready).await.metadata.name.unwrap();
    let bare = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let contents = rig.contents();
    let params = kube::api::PatchParams::default();
    contents
        .delete(&content, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    contents.patch(&content, &params, &bare).await.unwrap();
    let error = scene.error("monday").await;
    assert!(
        error.starts_with("VolumeSnapshotContent is missing"),
        "{error}"
    );
    assert_eq!(
        rig.driver.calls("CreateSnapshot"),
        1,
        "none is made in its place"
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_no_sidecar_begins_with_says_what_to_look_for() {
    let mut scene = Scene::quiet().await;
    scene.rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.controller = Some(controller(&scene.rig, &["--begin-patience=1s"]));
    scene.snapshot("monday", "data", json!({})).await;
    let told = scene.rig.event("monday", "SnapshotNotBegun", "").await;
    assert!(told.contains(&scene.rig.name), "{told}");
    assert!(told.contains("CREATE_DELETE_SNAPSHOT"), "{told}");
    scene.sidecar = Some(scene.rig.sidecar(run, &[]));
    scene.ready("monday").await;
    scene.end().await;
}
