//! What exists and needs nothing.

use serde_json::json;
use stowage_api::snapshot::VolumeSnapshotContent;
use stowage_sidecar::controller::run;
use stowage_stage::Rig;

/// Enough to show that nothing is done per content.
const MANY: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn contents_that_are_ready_cost_neither_calls_nor_writes() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let mut expected = Vec::new();
    for number in 0..MANY {
        let source = json!({"spec": {"source": {"volumeHandle": "v"}}});
        let name = rig.content(&format!("u{number}"), source).await;
        let status = json!({"status": {
            "snapshotHandle": format!("s-{number}"),
            "creationTime": 7, "restoreSize": 9, "readyToUse": true,
        }});
        let patch = kube::api::Patch::Merge(status);
        let contents = rig.contents();
        let params = kube::api::PatchParams::default();
        let written = contents.patch_status(&name, &params, &patch).await;
        expected.push(version(&written.unwrap()));
    }
    let volume = rig.volume("data").await;
    let sidecar = rig.sidecar(run, &[]);
    // When this one is ready, all others have been looked at.
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let last = rig.content("last", source).await;
    rig.content_is_ready(&last).await;
    let all = rig
        .contents()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let ours = |content: &&VolumeSnapshotContent| {
        content.spec.driver == rig.name && content.metadata.name.as_ref() != Some(&last)
    };
    let mut found: Vec<_> = all.iter().filter(ours).map(version).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(rig.driver.calls("CreateSnapshot"), 1);
    assert_eq!(rig.driver.calls("ListSnapshots"), 0);
    sidecar.stop().await.unwrap();
}

fn version(content: &VolumeSnapshotContent) -> (Option<String>, Option<String>) {
    let metadata = &content.metadata;
    (metadata.name.clone(), metadata.resource_version.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_of_other_drivers_are_left_alone() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.snapshot_class(json!({})).await;
    let sidecar = rig.sidecar(run, &[]);
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}, "driver": "other.test"}});
    let other = rig.content("other", source).await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let own = rig.content("own", source).await;
    rig.content_is_ready(&own).await;
    let other = rig.contents().get(&other).await.unwrap();
    assert_eq!(other.status, None);
    assert_eq!(rig.driver.snapshots().len(), 1);
    sidecar.stop().await.unwrap();
}
