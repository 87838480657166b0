//! Contents are let go, and snapshots deleted as the policy says.

use serde_json::json;
use stowage_api::snapshot::names;
use stowage_sidecar::controller::run;
use stowage_stage::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn the_snapshot_goes_with_its_content_or_stays() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.snapshot_class(json!({})).await;
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let deleted = rig.content("u1", source.clone()).await;
    let retained =
        json!({"spec": {"source": {"volumeHandle": volume}, "deletionPolicy": "Retain"}});
    let retained = rig.content("u2", retained).await;
    rig.content_is_ready(&deleted).await;
    let kept = rig
        .content_is_ready(&retained)
        .await
        .status
        .unwrap()
        .snapshot_handle;

    // The class is needed no more.
    rig.delete_snapshot_class().await;
    rig.delete_content(&deleted).await;
    rig.delete_content(&retained).await;
    rig.content_is_gone(&deleted).await;
    rig.content_is_gone(&retained).await;
    let left = rig.driver.snapshots();
    assert_eq!(left.len(), 1);
    assert_eq!(Some(&left[0].snapshot.snapshot_id), kept.as_ref());
    assert_eq!(rig.driver.calls("DeleteSnapshot"), 1);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_that_somebody_else_holds_speaks_of_no_snapshot_any_more() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.snapshot_class(json!({})).await;
    let volume = rig.volume("data").await;
    let mine = names::SNAPSHOT.finalizer;
    let content = json!({
        "metadata": {"finalizers": [mine, "stowage.test/mine"]},
        "spec": {"source": {"volumeHandle": volume}},
    });
    let content = rig.content("u1", content).await;
    rig.content_is_ready(&content).await;
    rig.delete_content(&content).await;
    let left = rig
        .content_that(&content, "is let go", |content| {
            content.metadata.finalizers.as_deref() == Some(&["stowage.test/mine".to_owned()])
        })
        .await;
    assert_eq!(left.status.unwrap().snapshot_handle, None);
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_whose_snapshot_lives_stays_when_somebody_deletes_it() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.snapshot_class(json!({})).await;
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source.clone()).await;
    rig.content_is_ready(&content).await;
    let params = kube::api::DeleteParams::default();
    rig.contents().delete(&content, &params).await.unwrap();
    // Another one comes and goes meanwhile.
    let other = rig.content("u2", source).await;
    rig.content_is_ready(&other).await;
    rig.delete_content(&other).await;
    rig.content_is_gone(&other).await;
    assert_eq!(rig.driver.snapshots().len(), 1);
    rig.delete_content(&content).await;
    rig.content_is_gone(&content).await;
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await.unwrap();
}
