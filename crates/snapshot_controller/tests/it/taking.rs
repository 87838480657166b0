//! Snapshots are taken, and known by their users.

use serde_json::{Value, json};
use stowage_api::snapshot::names;
use stowage_stage::eventually;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_bound_ready_and_releases_its_claim() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.secret("key-monday", "user", "key-monday").await;
    rig.snapshot_class(json!({
        "csi.storage.k8s.io/snapshotter-secret-name": "key-${volumesnapshot.name}",
        "csi.storage.k8s.io/snapshotter-secret-namespace": "${volumesnapshot.namespace}",
    }))
    .await;
    let handle = scene.claim("data", Value::Null).await;
    let made = scene.snapshot("monday", "data", json!({})).await;
    let uid = made.metadata.uid.unwrap();
    let snapshot = scene.ready("monday").await;
    let content = scene.content_of(&snapshot).await;

    assert_eq!(content.metadata.name, Some(format!("snapcontent-{uid}")));
    let spec = serde_json::to_value(&content.spec).unwrap();
    assert_eq!(
        spec,
        json!({
            "deletionPolicy": "Delete",
            "driver": rig.name,
            "source": {"volumeHandle": handle},
            "sourceVolumeMode": "Filesystem",
            "volumeSnapshotClassName": rig.name,
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshot",
                "namespace": rig.namespace, "name": "monday", "uid": uid,
            },
        })
    );
    let annotations = content.metadata.annotations.unwrap();
    assert_eq!(annotations[names::SNAPSHOT.secret_name], "key-monday");
    assert_eq!(annotations[names::SNAPSHOT.secret_namespace], rig.namespace);
    let finalizers = content.metadata.finalizers.unwrap();
    assert_eq!(finalizers, [names::SNAPSHOT.finalizer]);
    let finalizers = snapshot.metadata.finalizers.unwrap();
    assert_eq!(
        finalizers,
        [names::SNAPSHOT_AS_SOURCE, names::SNAPSHOT_BOUND]
    );

    let kept = &rig.driver.snapshots()[0].snapshot;
    let status = snapshot.status.unwrap();
    let created = status.creation_time.unwrap().0.as_second();
    assert_eq!(created, kept.creation_time.unwrap().seconds);
    assert!(status.restore_size.is_some());
    assert!(status.error.is_none());
    for reason in ["CreatingSnapshot", "SnapshotCreated", "SnapshotReady"] {
        let text = rig.event("monday", reason, "").await;
        assert!(
            text.contains(&format!("{}/monday", rig.namespace)),
            "{text}"
        );
    }
    released(&scene, "data").await;
    scene.end().await;
}

/// Waits until a claim is kept for no snapshot.
pub async fn released(scene: &Scene, claim: &str) {
    let claims = scene.claims();
    eventually(&format!("claim {claim} is released"), async || {
        let found = claims.get_opt(claim).await.unwrap();
        let finalizers = found.and_then(|claim| claim.metadata.finalizers);
        let kept = finalizers
            .iter()
            .flatten()
            .any(|name| name == names::CLAIM_AS_SOURCE);
        (!kept).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_is_bound_by_hand() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    let snapshot = scene.ready("monday").await;
    let handle = scene
        .content_of(&snapshot)
        .await
        .status
        .unwrap()
        .snapshot_handle;

    let by_hand = json!({
        "metadata": {"finalizers": null},
        "spec": {
            "deletionPolicy": "Retain",
            "source": {"snapshotHandle": handle},
            "volumeSnapshotClassName": null,
            "volumeSnapshotRef": {"name": "copy", "uid": null},
        },
    });
    let content = rig.content("by-hand", by_hand).await;
    let source = json!({"source": {
        "persistentVolumeClaimName": null, "volumeSnapshotContentName": content,
    }});
    let copy = scene.snapshot("copy", "", source).await;
    let ready = scene.ready("copy").await;
    let bound = scene.content_of(&ready).await;
    assert_eq!(bound.spec.volume_snapshot_ref.uid, copy.metadata.uid);
    assert_eq!(
        bound.spec.volume_snapshot_class_name,
        Some(rig.name.clone())
    );
    let finalizers = bound.metadata.finalizers.unwrap();
    assert_eq!(finalizers, [names::SNAPSHOT.finalizer]);

    // Its content is kept, and what is on the storage too.
    scene.delete("copy").await;
    scene.gone("copy").await;
    let left = rig.contents().get(&content).await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_none());
    assert_eq!(rig.driver.snapshots().len(), 1);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_kept_while_its_snapshot_is_taken() {
    use stowage_memory_driver::Mishap;
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    rig.driver.upset(
        "CreateSnapshot",
        Mishap::refuse(tonic::Code::Unavailable, "later"),
    );
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    let error = scene.error("monday").await;
    assert!(error.contains("later"), "{error}");
    let params = kube::api::DeleteParams::default();
    scene.claims().delete("data", &params).await.unwrap();
    let claim = scene.claims().get("data").await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_some());
    let finalizers = claim.metadata.finalizers.unwrap();
    assert!(finalizers.iter().any(|name| name == names::CLAIM_AS_SOURCE));
    rig.driver.mend();
    let ready = scene.ready("monday").await;
    assert!(ready.status.unwrap().error.is_none());
    released(&scene, "data").await;
    scene.end().await;
}
