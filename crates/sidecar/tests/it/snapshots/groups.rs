//! Snapshots of several volumes.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeGroupSnapshotContent, names};
use stowage_csi::proto::csi::{CreateVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotRequest};
use stowage_memory_driver::{Fault, Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};
use tonic::Code;

pub async fn group(rig: &Rig, source: Value) -> String {
    let uid = format!("g-{}", rig.namespace);
    let name = format!("groupsnapcontent-{uid}");
    let object = json!({
        "metadata": {"name": name, "finalizers": [names::GROUP_SNAPSHOT.finalizer]},
        "spec": {
            "driver": rig.name,
            "deletionPolicy": "Delete",
            "volumeGroupSnapshotClassName": rig.name,
            "volumeGroupSnapshotRef": {"name": "all", "namespace": rig.namespace, "uid": uid},
            "source": source,
        },
    });
    create(&rig.group_contents(), object).await;
    name
}

pub async fn ready(rig: &Rig, name: &str) -> VolumeGroupSnapshotContent {
    let contents = rig.group_contents();
    eventually(&format!("group content {name} is ready"), async || {
        let content = contents.get(name).await.unwrap();
        let status = content.status.as_ref();
        let ready = status.and_then(|status| status.ready_to_use) == Some(true);
        let annotations = content.metadata.annotations.clone().unwrap_or_default();
        let marked = annotations.contains_key(names::GROUP_SNAPSHOT.being_created);
        (ready && !marked).then_some(content)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_made_at_once_and_deleted_at_once() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.group_snapshot_class().await;
    let volumes = [rig.volume("data").await, rig.volume("logs").await];
    // The answer of the first call is lost: the second finds the same group.
    let lost = Mishap::new(
        Moment::After,
        Trouble::Refuse(Code::Unavailable, String::new()),
    );
    rig.driver.upset("CreateVolumeGroupSnapshot", lost.once());
    rig.driver.set(Fault::NeverReadyToUse);
    let sidecar = rig.sidecar(run, &[]);
    let name = group(&rig, json!({"volumeHandles": volumes})).await;
    eventually("it is asked again", async || {
        (rig.driver.calls("GetVolumeGroupSnapshot") >= 2).then_some(())
    })
    .await;
    rig.driver.mend();
    let status = ready(&rig, &name).await.status.unwrap();
    let members = status.volume_snapshot_info_list.unwrap();
    let sources: Vec<_> = members
        .iter()
        .map(|member| member.volume_handle.clone().unwrap())
        .collect();
    assert_eq!(sources, volumes);
    assert!(members.iter().all(|member| member.ready_to_use.is_some()));
    assert_eq!(rig.driver.snapshots().len(), 2);
    let request = rig
        .driver
        .last_request::<CreateVolumeGroupSnapshotRequest>();
    let expected = format!("groupsnapshot-g-{}", rig.namespace);
    assert_eq!(request.unwrap().name, expected);

    let contents = rig.group_contents();
    let mark =
        json!({"metadata": {"annotations": {names::GROUP_SNAPSHOT.being_deleted: names::YES}}});
    let params = PatchParams::default();
    contents
        .patch(&name, &params, &Patch::Merge(mark))
        .await
        .unwrap();
    contents
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the content is gone", async || {
        contents
            .get_opt(&name)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    assert!(rig.driver.snapshots().is_empty());
    let request = rig
        .driver
        .last_request::<DeleteVolumeGroupSnapshotRequest>();
    assert_eq!(request.unwrap().snapshot_ids.len(), 2);
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_a_missing_volume_is_not_made_at_all() {
    let rig = Rig::with_snapshots(|profile| profile).await;
    rig.group_snapshot_class().await;
    let sidecar = rig.sidecar(run, &[]);
    let volume = rig.volume("data").await;
    let name = group(&rig, json!({"volumeHandles": [volume, "no such volume"]})).await;
    let event = rig.event(&name, "GroupSnapshotCreationFailed", "").await;
    assert!(event.contains("no such volume"), "{event}");
    assert!(rig.driver.snapshots().is_empty());
    sidecar.stop().await.unwrap();
}
