//! Kinds that are installed while the sidecar runs.

use devcluster::testing::ApiServer;
use serde_json::json;
use stowage_api::CrdGroup;

use crate::groups::{group, ready};
use crate::rig::{Rig, install};

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_taken_from_the_moment_their_kinds_are_installed() {
    // One of its own: all others have the kinds.
    let server = tokio::task::spawn_blocking(|| ApiServer::start().unwrap());
    let server: &'static ApiServer = Box::leak(Box::new(server.await.unwrap()));
    let rig = Rig::on(server, |profile| profile).await;
    let sidecar = rig.sidecar(&[]);
    // Long enough for it to have asked in vain.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;

    tokio::task::spawn_blocking(|| install(server, &[CrdGroup::Snapshots]))
        .await
        .unwrap();
    let volume = rig.volume("data").await;
    rig.class(json!({})).await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("late", source).await;
    rig.ready(&content).await;
    assert_eq!(rig.driver.snapshots().len(), 1);

    // Groups come later still, and the role is at work already.
    tokio::task::spawn_blocking(|| install(server, &[CrdGroup::GroupSnapshots]))
        .await
        .unwrap();
    rig.group_class().await;
    let content = group(&rig, json!({"volumeHandles": [volume]})).await;
    ready(&rig, &content).await;
    sidecar.stop().await;
    server.stop().unwrap();
}
