//! Contents are let go, and snapshots deleted as the policy says.

use serde_json::json;
use stowage_api::snapshot::names;

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn the_snapshot_goes_with_its_content_or_stays() {
    let rig = Rig::new(|profile| profile).await;
    let sidecar = rig.sidecar(&[]);
    rig.class(json!({})).await;
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let deleted = rig.content("u1", source.clone()).await;
    let retained =
        json!({"spec": {"source": {"volumeHandle": volume}, "deletionPolicy": "Retain"}});
    let retained = rig.content("u2", retained).await;
    rig.ready(&deleted).await;
    let kept = rig.ready(&retained).await.status.unwrap().snapshot_handle;

    // The class is needed no more.
    rig.delete_class().await;
    rig.delete_content(&deleted).await;
    rig.delete_content(&retained).await;
    rig.gone(&deleted).await;
    rig.gone(&retained).await;
    let left = rig.driver.snapshots();
    assert_eq!(left.len(), 1);
    assert_eq!(Some(&left[0].snapshot.snapshot_id), kept.as_ref());
    assert_eq!(rig.driver.calls("DeleteSnapshot"), 1);
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_that_somebody_else_holds_speaks_of_no_snapshot_any_more() {
    let rig = Rig::new(|profile| profile).await;
    let sidecar = rig.sidecar(&[]);
    rig.class(json!({})).await;
    let volume = rig.volume("data").await;
    let mine = names::SNAPSHOT.finalizer;
    let content = json!({
        "metadata": {"finalizers": [mine, "stowage.test/mine"]},
        "spec": {"source": {"volumeHandle": volume}},
    });
    let content = rig.content("u1", content).await;
    rig.ready(&content).await;
    rig.delete_content(&content).await;
    let left = rig
        .content_that(&content, "is let go", |content| {
            content.metadata.finalizers.as_deref() == Some(&["stowage.test/mine".to_owned()])
        })
        .await;
    assert_eq!(left.status.unwrap().snapshot_handle, None);
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_whose_snapshot_lives_stays_when_somebody_deletes_it() {
    let rig = Rig::new(|profile| profile).await;
    let sidecar = rig.sidecar(&[]);
    rig.class(json!({})).await;
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source.clone()).await;
    rig.ready(&content).await;
    let params = kube::api::DeleteParams::default();
    rig.contents().delete(&content, &params).await.unwrap();
    // Another one comes and goes meanwhile.
    let other = rig.content("u2", source).await;
    rig.ready(&other).await;
    rig.delete_content(&other).await;
    rig.gone(&other).await;
    assert_eq!(rig.driver.snapshots().len(), 1);
    rig.delete_content(&content).await;
    rig.gone(&content).await;
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await;
}
