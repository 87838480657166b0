//! Kinds that are installed while the sidecar runs.

use serde_json::json;
use stowage_api::CrdGroup;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, install_kinds};
use stowage_testing::Lent;

use crate::snapshots::groups::{group, ready};

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_taken_from_the_moment_their_kinds_are_installed() {
    // One of its own: all others have the kinds.
    let server = tokio::task::spawn_blocking(|| Box::leak(Box::new(stowage_testing::api_server())));
    let server: &'static Lent = server.await.unwrap();
    let rig = Rig::on_server(server, |mut profile| {
        profile.groups = true;
        profile
    })
    .await;
    let sidecar = rig.sidecar(run, &[]);
    // Long enough for it to have asked without success.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;

    tokio::task::spawn_blocking(|| install_kinds(server, &[CrdGroup::Snapshots]))
        .await
        .unwrap();
    let volume = rig.volume("data").await;
    rig.snapshot_class(json!({})).await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("late", source).await;
    rig.content_is_ready(&content).await;
    assert_eq!(rig.driver.snapshots().len(), 1);

    // Groups come later still, and the role is at work already.
    tokio::task::spawn_blocking(|| install_kinds(server, &[CrdGroup::GroupSnapshots]))
        .await
        .unwrap();
    rig.group_snapshot_class().await;
    let content = group(&rig, json!({"volumeHandles": [volume]})).await;
    ready(&rig, &content).await;
    sidecar.stop().await.unwrap();
}
