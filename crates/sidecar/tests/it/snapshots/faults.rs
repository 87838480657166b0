//! Bad input, drivers that fail, and processes that die at the worst moment.

use serde_json::json;
use stowage_api::snapshot::names;
use stowage_csi::proto::csi::CreateSnapshotRequest;
use stowage_memory_driver::{Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, error_of, eventually, is_marked};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_class_is_told_and_waited_for() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(
        run,
        &["--retry-interval-start=1h", "--retry-interval-max=1h"],
    );
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    let error = rig.content_error(&content).await;
    let expected = format!(
        "snapshot class `{}` does not exist or is for another driver",
        rig.name
    );
    assert!(error.contains(&expected), "{error}");
    assert_eq!(
        rig.event(&content, "SnapshotCreationFailed", "").await,
        error
    );
    assert_eq!(rig.driver.calls("CreateSnapshot"), 0);
    rig.snapshot_class(json!({})).await;
    let ready = rig.content_is_ready(&content).await;
    assert_eq!(error_of(&ready), None);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_stops_the_call_until_it_is_there() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.snapshot_class(json!({})).await;
    let volume = rig.volume("data").await;
    let content = json!({
        "metadata": {"annotations": {
            names::SNAPSHOT.secret_name: "key",
            names::SNAPSHOT.secret_namespace: rig.namespace,
        }},
        "spec": {"source": {"volumeHandle": volume}},
    });
    let content = rig.content("u1", content).await;
    let error = rig.content_error(&content).await;
    let expected = format!("secret `{}/key` does not exist", rig.namespace);
    assert!(error.contains(&expected), "{error}");
    assert_eq!(rig.driver.calls("CreateSnapshot"), 0);
    assert!(!is_marked(&rig.contents().get(&content).await.unwrap()));
    rig.secret("key", "user", "key").await;
    rig.content_is_ready(&content).await;
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_error_takes_the_mark_away_and_success_the_error() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let refusal = Mishap::refuse(Code::Internal, "the array is full of cats");
    rig.driver.upset("CreateSnapshot", refusal);
    let sidecar = rig.sidecar(run, &[]);
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    let error = rig.content_error(&content).await;
    assert_eq!(
        error,
        "Failed to create snapshot: rpc error: code = Internal desc = the array is full of cats"
    );
    rig.content_that(&content, "has no mark", |content| !is_marked(content))
        .await;
    assert_eq!(
        rig.event(&content, "SnapshotCreationFailed", "").await,
        error
    );
    rig.driver.mend();
    let ready = rig.content_is_ready(&content).await;
    assert_eq!(error_of(&ready), None);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_be_under_way_keeps_its_mark_and_its_content() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let timeout = Mishap::new(
        Moment::After,
        Trouble::Refuse(Code::DeadlineExceeded, "too slow".to_owned()),
    );
    rig.driver.upset("CreateSnapshot", timeout);
    let sidecar = rig.sidecar(run, &[]);
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    rig.content_error(&content).await;
    rig.delete_content(&content).await;
    eventually("the call is made again", async || {
        (rig.driver.calls("CreateSnapshot") >= 3).then_some(())
    })
    .await;
    assert!(is_marked(&rig.contents().get(&content).await.unwrap()));
    assert_eq!(rig.driver.calls("DeleteSnapshot"), 0);
    rig.driver.mend();
    rig.content_is_gone(&content).await;
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await.unwrap();
}

/// A content whose sidecar was killed between the driver's work and the status.
async fn killed_after_the_call(rig: &Rig) -> String {
    rig.driver.upset(
        "CreateSnapshot",
        Mishap::new(Moment::After, Trouble::Hang).once(),
    );
    let sidecar = rig.sidecar(run, &[]);
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    eventually("the driver has it", async || {
        (rig.driver.snapshots().len() == 1).then_some(())
    })
    .await;
    sidecar.kill().await;
    content
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_call_and_status_leaves_one_snapshot() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({"tier": "gold"})).await;
    let content = killed_after_the_call(&rig).await;
    assert!(is_marked(&rig.contents().get(&content).await.unwrap()));

    let sidecar = rig.sidecar(run, &[]);
    rig.content_is_ready(&content).await;
    let requests = rig.driver.requests::<CreateSnapshotRequest>();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1]);
    assert_eq!(rig.driver.snapshots().len(), 1);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_a_dead_process_left_is_resolved_before_the_content_goes() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let content = killed_after_the_call(&rig).await;
    // The user gave up, and the class is gone too.
    rig.delete_content(&content).await;
    rig.delete_snapshot_class().await;

    let sidecar = rig.sidecar(run, &[]);
    rig.content_is_gone(&content).await;
    assert!(rig.driver.snapshots().is_empty());
    assert_eq!(rig.driver.calls("DeleteSnapshot"), 1);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_made_does_not_hold_its_content() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let sidecar = rig.sidecar(run, &[]);
    let source = json!({"spec": {"source": {"volumeHandle": "no such volume"}}});
    let content = rig.content("u1", source).await;
    let error = rig.content_error(&content).await;
    assert!(error.contains("code = NotFound"), "{error}");
    rig.delete_content(&content).await;
    rig.content_is_gone(&content).await;
    assert_eq!(rig.driver.calls("DeleteSnapshot"), 0);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_fails_is_told_and_tried_again() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let sidecar = rig.sidecar(run, &[]);
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    rig.content_is_ready(&content).await;
    let refusal = Mishap::refuse(Code::FailedPrecondition, "a volume depends on it");
    rig.driver.upset("DeleteSnapshot", refusal);
    rig.delete_content(&content).await;
    let event = rig.event(&content, "SnapshotDeleteError", "").await;
    assert!(event.contains("a volume depends on it"), "{event}");
    rig.driver.mend();
    rig.content_is_gone(&content).await;
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await.unwrap();
}
