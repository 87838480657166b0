//! Things are deleted in orders that nobody would choose.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::{Value, json};
use stowage_stage::eventually;

use crate::scene::Scene;
use crate::taking::released;

#[tokio::test(flavor = "multi_thread")]
async fn class_first_then_claim_then_content_then_snapshot() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.snapshot("tuesday", "data", json!({})).await;
    let monday = scene.ready("monday").await;
    scene.ready("tuesday").await;
    released(&scene, "data").await;
    let params = DeleteParams::default();

    rig.delete_snapshot_class().await;
    scene.claims().delete("data", &params).await.unwrap();
    let content = scene.content_of(&monday).await.metadata.name.unwrap();
    rig.contents().delete(&content, &params).await.unwrap();
    // The content of a snapshot that lives stays.
    assert_eq!(rig.driver.snapshots().len(), 2);
    scene.delete("tuesday").await;
    scene.gone("tuesday").await;
    assert_eq!(rig.driver.snapshots().len(), 1);
    scene.delete("monday").await;
    scene.gone("monday").await;
    scene.nothing_left().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_deleted_while_it_is_taken_leaves_nothing() {
    use stowage_memory_driver::{Mishap, Moment, Trouble};
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    let timeout = Trouble::Refuse(tonic::Code::DeadlineExceeded, "slow".to_owned());
    rig.driver
        .upset("CreateSnapshot", Mishap::new(Moment::After, timeout));
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.error("monday").await;
    scene.delete("monday").await;
    rig.delete_snapshot_class().await;
    let params = DeleteParams::default();
    scene.claims().delete("data", &params).await.unwrap();
    assert_eq!(rig.driver.snapshots().len(), 1);
    rig.driver.mend();
    scene.gone("monday").await;
    scene.nothing_left().await;
    released(&scene, "data").await;
    scene.end().await;
}

/// The API server may delete a request in the moment in which it gets its finalizers: then its content must not stay.
#[tokio::test(flavor = "multi_thread")]
async fn snapshots_deleted_right_after_they_were_asked_for_leave_nothing() {
    let scene = Scene::new().await;
    scene.rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    let lives = (0..60_u64).map(|number| {
        let scene = &scene;
        async move {
            let name = format!("brief-{number}");
            scene.snapshot(&name, "data", json!({})).await;
            tokio::time::sleep(Duration::from_millis(number)).await;
            scene.delete(&name).await;
        }
    });
    futures::future::join_all(lives).await;
    for number in 0..60 {
        scene.gone(&format!("brief-{number}")).await;
    }
    scene.nothing_left().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_being_restored_waits() {
    let scene = Scene::new().await;
    let rig = &scene.rig;
    rig.snapshot_class(json!({})).await;
    scene.claim("data", Value::Null).await;
    scene.snapshot("monday", "data", json!({})).await;
    scene.ready("monday").await;
    let source = json!({"dataSource": {
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday",
    }});
    scene.unbound("restored", Value::Null, source).await;
    scene.set_phase("restored", "Pending").await;
    scene.delete("monday").await;
    rig.event("monday", "SnapshotDeletePending", "").await;
    assert_eq!(rig.driver.snapshots().len(), 1);
    scene.set_phase("restored", "Bound").await;
    scene.gone("monday").await;
    eventually("the driver has nothing", async || {
        rig.driver.snapshots().is_empty().then_some(())
    })
    .await;
    scene.end().await;
}
