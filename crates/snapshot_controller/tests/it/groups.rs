//! Snapshots of several volumes, and their members.

use kube::api::DeleteParams;
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeGroupSnapshot, VolumeSnapshot, names};
use stowage_stage::{create, eventually};

use crate::scene::Scene;

pub async fn group(scene: &Scene, name: &str) {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "volumeGroupSnapshotClassName": scene.rig.name,
            "source": {"selector": {"matchLabels": {"app": "shop"}}},
        },
    });
    create(&scene.groups(), object).await;
}

pub async fn ready(scene: &Scene, name: &str) -> VolumeGroupSnapshot {
    let groups = scene.groups();
    eventually(&format!("group {name} is ready"), async || {
        let group = groups.get(name).await.unwrap();
        let status = group.status.clone();
        (status.and_then(|status| status.ready_to_use) == Some(true)).then_some(group)
    })
    .await
}

pub async fn members(scene: &Scene) -> Vec<VolumeSnapshot> {
    let snapshots = scene.snapshots();
    eventually("both members are ready", async || {
        let all = snapshots
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items;
        let ready = |snapshot: &&VolumeSnapshot| {
            let status = snapshot.status.as_ref();
            status.and_then(|status| status.ready_to_use) == Some(true)
        };
        (all.iter().filter(ready).count() == 2).then_some(all)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_two_volumes_comes_and_goes_as_one() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.group_snapshot_class().await;
    let shop = json!({"app": "shop"});
    scene.claim("data", shop.clone()).await;
    scene.claim("logs", shop).await;
    scene.claim("other", json!({"app": "else"})).await;
    group(&scene, "nightly").await;
    let nightly = ready(&scene, "nightly").await;
    assert_eq!(
        nightly.metadata.finalizers,
        Some(vec![names::GROUP_BOUND.to_owned()])
    );
    for reason in [
        "CreatingGroupSnapshot",
        "GroupSnapshotCreated",
        "GroupSnapshotReady",
    ] {
        rig.event("nightly", reason, "").await;
    }
    let members = members(&scene).await;
    let mut claims: Vec<_> = members
        .iter()
        .map(|member| {
            member
                .spec
                .source
                .persistent_volume_claim_name
                .clone()
                .unwrap()
        })
        .collect();
    claims.sort();
    assert_eq!(claims, ["data", "logs"]);
    for member in &members {
        let status = member.status.clone().unwrap();
        assert_eq!(
            status.volume_group_snapshot_name.as_deref(),
            Some("nightly")
        );
        let content = scene.content_of(member).await;
        let annotations = content.metadata.annotations.clone().unwrap();
        let group = content
            .status
            .unwrap()
            .volume_group_snapshot_handle
            .unwrap();
        assert_eq!(annotations[names::GROUP_HANDLE], group);
        assert_eq!(
            content.spec.source_volume_mode.as_deref(),
            Some("Filesystem")
        );
        let finalizers = member.metadata.finalizers.clone().unwrap();
        assert!(
            finalizers
                .iter()
                .any(|name| name == names::SNAPSHOT_IN_GROUP)
        );
    }
    assert_eq!(rig.driver.calls("CreateSnapshot"), 0);
    assert_eq!(rig.driver.snapshots().len(), 2);

    // A member alone does not go.
    let first = members[0].metadata.name.clone().unwrap();
    scene.delete(&first).await;
    let text = rig.event(&first, "SnapshotDeletePending", "").await;
    assert!(text.contains("`nightly`"), "{text}");
    assert_eq!(rig.driver.snapshots().len(), 2);

    let params = DeleteParams::default();
    scene.groups().delete("nightly", &params).await.unwrap();
    scene.nothing_left().await;
    scene.group_is_gone("nightly").await;
    assert_eq!(rig.driver.calls("DeleteVolumeGroupSnapshot"), 1);
    assert_eq!(rig.driver.calls("DeleteSnapshot"), 0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_claims_says_so() {
    let scene = Scene::new().await;
    scene.rig.group_snapshot_class().await;
    scene.claim("other", Value::Null).await;
    group(&scene, "empty").await;
    let text = scene
        .rig
        .event("empty", "GroupSnapshotContentCreationFailed", "")
        .await;
    assert!(text.contains("matches no claim"), "{text}");
    scene.end().await;
}
