//! What exists and needs nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::scene::Scene;

/// Enough to show that nothing is done per snapshot.
const MANY: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_many_snapshots_writes_nothing() {
    let mut scene = Scene::new().await;
    scene.many_snapshots(MANY).await;
    for number in 0..MANY {
        scene.ready(&format!("s{number}")).await;
    }
    crate::taking::released(&scene, "data").await;
    if let (Some(controller), Some(sidecar)) = (scene.controller.take(), scene.sidecar.take()) {
        controller.stop().await.unwrap();
        sidecar.stop().await.unwrap();
    }
    let calls = scene.rig.driver.all_calls();
    let before = versions(&scene).await;
    scene.start();
    // When this one is ready, all others have been looked at.
    scene.claim("last", Value::Null).await;
    scene.snapshot("last", "last", json!({})).await;
    let last = scene.ready("last").await;
    let content = scene.content_of(&last).await.metadata.name.unwrap();
    let mut after = versions(&scene).await;
    after.retain(|name, _| *name != content && name != "last");
    assert_eq!(after, before);
    let made = scene.rig.driver.calls("CreateSnapshot");
    assert_eq!(made, calls["CreateSnapshot"] + 1);
    assert_eq!(scene.rig.driver.calls("ListSnapshots"), 0);
    scene.end().await;
}

async fn versions(scene: &Scene) -> BTreeMap<String, String> {
    let snapshots = scene
        .snapshots()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let contents = scene
        .rig
        .contents()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let contents = contents.into_iter();
    let ours = contents.filter(|content| content.spec.driver == scene.rig.name);
    let all = snapshots.into_iter().map(|snapshot| snapshot.metadata);
    let all = all.chain(ours.map(|content| content.metadata));
    all.map(|metadata| (metadata.name.unwrap(), metadata.resource_version.unwrap()))
        .collect()
}
