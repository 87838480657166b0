//! Snapshots are taken, and become ready.

use std::collections::BTreeMap;

use serde_json::json;
use stowage_api::snapshot::names;
use stowage_csi::proto::csi::{CreateSnapshotRequest, ListSnapshotsRequest};
use stowage_memory_driver::Fault;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_taken_with_what_class_and_annotations_say() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &["--extra-create-metadata"]);
    rig.secret("key", "user", "key").await;
    rig.snapshot_class(json!({
        "tier": "gold",
        "csi.storage.k8s.io/snapshotter-secret-name": "for the controller",
        "csi.storage.k8s.io/snapshotter-secret-namespace": "for the controller",
    }))
    .await;
    let volume = rig.volume("data").await;
    let content = rig
        .content(
            "u1",
            json!({
                "metadata": {"annotations": {
                    names::SNAPSHOT.secret_name: "key",
                    names::SNAPSHOT.secret_namespace: rig.namespace,
                }},
                "spec": {"source": {"volumeHandle": volume}},
            }),
        )
        .await;

    let ready = rig.content_is_ready(&content).await;
    let snapshots = rig.driver.snapshots();
    let made = &snapshots[0].snapshot;
    let created = made.creation_time.unwrap();
    assert_eq!(
        serde_json::to_value(ready.status.unwrap()).unwrap(),
        json!({
            "snapshotHandle": made.snapshot_id,
            "creationTime": created.seconds * 1_000_000_000 + i64::from(created.nanos),
            "restoreSize": made.size_bytes,
            "readyToUse": true,
        })
    );
    let request = rig.driver.last_request::<CreateSnapshotRequest>().unwrap();
    assert_eq!(request.name, format!("snapshot-u1-{}", rig.namespace));
    assert_eq!(request.source_volume_id, volume);
    assert_eq!(request.secrets, strings(&[("user", "key")]));
    let prefix = "csi.storage.k8s.io";
    assert_eq!(
        request.parameters,
        strings(&[
            ("tier", "gold"),
            (&format!("{prefix}/volumesnapshot/name"), "monday"),
            (
                &format!("{prefix}/volumesnapshot/namespace"),
                &rig.namespace
            ),
            (&format!("{prefix}/volumesnapshotcontent/name"), &content),
        ])
    );
    assert_eq!(rig.driver.calls("CreateSnapshot"), 1);
    sidecar.stop().await.unwrap();
}

fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_needs_time_is_asked_for_until_it_is_ready() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.snapshot_class(json!({})).await;
    rig.driver.set(Fault::NeverReadyToUse);
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let content = rig.content("u1", source).await;
    let unready = rig
        .content_that(&content, "has a handle", |content| {
            let status = content.status.as_ref();
            status.is_some_and(|status| status.snapshot_handle.is_some())
        })
        .await;
    assert_eq!(unready.status.unwrap().ready_to_use, Some(false));
    eventually("it is asked again", async || {
        (rig.driver.calls("CreateSnapshot") >= 3).then_some(())
    })
    .await;
    rig.driver.mend();
    rig.content_is_ready(&content).await;
    assert_eq!(rig.driver.snapshots().len(), 1);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_exists_is_looked_up() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.secret("reader", "user", "reader").await;
    rig.snapshot_class(json!({
        "csi.storage.k8s.io/snapshotter-list-secret-name": "reader",
        "csi.storage.k8s.io/snapshotter-list-secret-namespace": rig.namespace,
    }))
    .await;
    let volume = rig.volume("data").await;
    let source = json!({"spec": {"source": {"volumeHandle": volume}}});
    let first = rig.content("u1", source).await;
    let handle = rig
        .content_is_ready(&first)
        .await
        .status
        .unwrap()
        .snapshot_handle;

    let source = json!({"spec": {
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {"uid": null},
    }});
    let second = rig.content("u2", source).await;
    let status = rig.content_is_ready(&second).await.status.unwrap();
    assert_eq!(status.snapshot_handle, handle);
    let request = rig.driver.last_request::<ListSnapshotsRequest>().unwrap();
    assert_eq!(Some(request.snapshot_id), handle);
    assert_eq!(request.secrets, strings(&[("user", "reader")]));
    assert_eq!(rig.driver.calls("CreateSnapshot"), 1);

    let source = json!({"spec": {"source": {"snapshotHandle": "nowhere"}}});
    let third = rig.content("u3", source).await;
    let error = rig.content_error(&third).await;
    assert!(
        error.contains("does not know snapshot `nowhere`"),
        "{error}"
    );
    let event = rig
        .event(&third, "SnapshotContentCheckandUpdateFailed", "")
        .await;
    assert_eq!(event, error);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_cannot_be_asked_has_what_exists_ready() {
    use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
    let cannot = [Can::ListSnapshots, Can::GetSnapshot];
    let rig = Rig::with_snapshots(|mut profile| {
        profile.controller.retain(|can| !cannot.contains(can));
        profile
    })
    .await;
    let sidecar = rig.sidecar(run, &[]);
    let source = json!({"spec": {
        "source": {"snapshotHandle": "somewhere"},
        "volumeSnapshotClassName": null,
    }});
    let content = rig.content("u1", source).await;
    let status = rig.content_is_ready(&content).await.status.unwrap();
    assert_eq!(status.snapshot_handle.as_deref(), Some("somewhere"));
    sidecar.stop().await.unwrap();
}
