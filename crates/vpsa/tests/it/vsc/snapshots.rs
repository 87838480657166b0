//! Snapshots: taken, restored into a larger volume, deleted; those of others are recorded and left alone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stowage_api::vpsa::{Snapshot, Volume};
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};

use crate::vsc::rig::{PATIENCE, Rig, array};

pub async fn snapshot(rig: &Rig, name: &str, volume: &str) {
    let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "Snapshot", "metadata": {"name": name},
        "spec": {"displayName": name, "volumeID": volume}});
    rig.create::<Snapshot>(object).await;
}

pub async fn on_array(array: &Array) -> Vec<String> {
    let objects = array.control().objects().await.unwrap();
    let snapshots = objects.snapshots.values();
    snapshots.map(|it| it.display_name.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_taken_once_restored_into_more_room_and_deleted() {
    let mut rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    snapshot(&rig, "s", "v").await;
    let waits = |it: &Value| it["status"]["conditions"][0]["reason"] == "NoVolume";
    rig.until::<Snapshot>("s", waits).await;
    // The answer is lost, and nothing is taken twice for it.
    let fault = Fault {
        method: Some("POST".to_owned()),
        path: Some("consistency_groups/*/snapshots".to_owned()),
        times: Some(1),
        trouble: Trouble::from(Own::DoneButGarbage),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
    rig.volume("v", "10Gi", json!({})).await;
    let ready = |it: &Value| it["status"]["state"] == "Ready";
    let taken = rig.until::<Snapshot>("s", ready).await;
    assert_eq!(taken["status"]["size"], "10Gi");
    assert_eq!(taken["status"]["VPSAID"], "one");
    assert!(taken["status"]["createdTimestamp"].is_string(), "{taken}");
    assert_eq!(on_array(&array).await, ["s"]);

    rig.patch::<Snapshot>("s", json!({"spec": {"displayName": "renamed"}}))
        .await;
    let deadline = Instant::now() + PATIENCE;
    while on_array(&array).await != ["renamed"] {
        assert!(Instant::now() < deadline, "{:?}", on_array(&array).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let source = json!({"cloneSource": {"kind": "Snapshot", "name": "s"}});
    rig.volume("restored", "12Gi", source).await;
    let restored = rig
        .until::<Volume>("restored", |it| it["status"]["capacity"] == "12Gi")
        .await;
    assert_eq!(restored["status"]["VPSAID"], "one");

    // A volume waits for its snapshots, and a snapshot for somebody who deletes it on the array.
    rig.delete::<Volume>("v").await;
    let waits = |it: &Value| it["status"]["conditions"][0]["reason"] == "HasSnapshots";
    rig.until::<Volume>("v", waits).await;
    let message = rig.event("v", "HasSnapshots").await;
    assert_eq!(message, "it has 1 snapshots: delete them, and it goes");
    rig.stop_plane().await;
    rig.delete::<Snapshot>("s").await;
    rig.until::<Snapshot>("s", |it| !it["metadata"]["deletionTimestamp"].is_null())
        .await;
    // Nor does it go while the array is away.
    array.control().stop_endpoint(0).await.unwrap();
    rig.start_plane();
    rig.event("s", "ArrayFailed").await;
    rig.until::<Snapshot>("s", Value::is_object).await;
    array.control().start_endpoint(0).await.unwrap();
    rig.until::<Snapshot>("s", Value::is_null).await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert!(on_array(&array).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_others_are_recorded_also_later_and_outlive_their_records() {
    let rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("v", "10Gi", json!({})).await;
    let ready = |it: &Value| it["status"]["state"] == "Ready";
    let volume = rig.until::<Volume>("v", ready).await;
    let group = volume["status"]["CGID"].as_str().unwrap().parse().unwrap();
    let api = crate::vsc::arrays::api_of(&array);
    let id = api.create_snapshot(&group, "by_hand").await.unwrap();
    let id = id.done().unwrap();
    let record = format!("one-{id}");
    let found = rig.until::<Snapshot>(&record, ready).await;
    assert_eq!(found["spec"]["volumeID"], "v");
    assert_eq!(found["spec"]["deletionPolicy"], "Retain");
    assert_eq!(found["status"]["size"], "10Gi");
    assert_eq!(found["status"]["VPSASnapshotID"], id.to_string());
    assert!(found["metadata"]["finalizers"].is_null(), "{found}");

    let source = json!({"cloneSource": {"kind": "Snapshot", "name": record}});
    rig.volume("restored", "10Gi", source).await;
    rig.until::<Volume>("restored", ready).await;
    rig.delete::<Snapshot>(&record).await;
    // It is recorded again, because it is still there.
    let uid = found["metadata"]["uid"].clone();
    rig.until::<Snapshot>(&record, |it| !it.is_null() && it["metadata"]["uid"] != uid)
        .await;
    assert_eq!(on_array(&array).await, ["by_hand"]);
}
