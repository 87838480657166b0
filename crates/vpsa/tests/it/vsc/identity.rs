//! Which array a VPSA is: another one under the same object is left alone, and one array is one object's.

use kube::api::ListParams;
use serde_json::{Value, json};
use stowage_api::vpsa::{ExternalVolume, Snapshot, Volume, Vpsa};
use stowage_sim::vpsa::Array;

use crate::vsc::arrays::{api_of, make_volume};
use crate::vsc::asked::{asked, times};
use crate::vsc::rig::{Rig, array};
use crate::vsc::volumes::{on_array, ready};

/// Has an object lead to this array.
async fn lead_to(rig: &Rig, array: &Array) {
    let spec = json!({"spec": {"hostname": array.hostname(), "token": array.access_key()}});
    rig.patch::<Vpsa>("one", spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_array_under_the_same_object_is_left_alone_as_long_as_volumes_are_on_the_first() {
    let ((own, _own), (other, _other)) = (array(|_| {}).await, array(|_| {}).await);
    let rig = Rig::start().await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &own).await;
    let before = rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("v", "10Gi", json!({})).await;
    let made = ready(&rig, "v").await;
    // It has a volume of the same identity, which is somebody else's.
    make_volume(&other, "theirs").await;
    let theirs = other.control().objects().await.unwrap();
    let id = made["status"]["ID"].as_str().unwrap();
    assert_eq!(theirs.volumes[id].display_name, "theirs");

    lead_to(&rig, &other).await;
    let refused = rig.vpsa_is("one", "Incompatible", "AnotherArray").await;
    assert_eq!(refused["status"]["IQN"], before["status"]["IQN"]);
    let change = json!({"spec": {"size": "11Gi", "displayName": "renamed"}});
    rig.patch::<Volume>("v", change).await;
    rig.delete::<Volume>("v").await;
    let is_told = |it: &Value| it["status"]["conditions"][0]["reason"] == "ArrayFailed";
    let held = rig.until::<Volume>("v", is_told).await;
    let message = held["status"]["conditions"][0]["message"].as_str();
    let message = message.unwrap_or_default();
    assert!(
        message.contains("the volumes of this VPSA are on vsa-"),
        "{message}"
    );
    asked(&other, "GET vcontrollers", 3).await;
    assert_eq!(on_array(&other).await, [("theirs".to_owned(), 10)]);
    assert_eq!(times(&other, "GET volumes/*").await, 0);
    assert_eq!(times(&other, "DELETE volumes/*").await, 0);

    lead_to(&rig, &own).await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&own).await, []);
    // Now nothing of ours can be meant.
    lead_to(&rig, &other).await;
    let is_new = |it: &Value| {
        it["status"]["state"] == "Ready" && it["status"]["IQN"] != before["status"]["IQN"]
    };
    rig.until::<Vpsa>("one", is_new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_one_objects_and_the_records_of_what_is_on_it_go_with_that() {
    let (array, _data) = array(|_| {}).await;
    make_volume(&array, "theirs").await;
    let api = api_of(&array);
    let volume = api.volumes().await.unwrap().remove(0);
    let taken = api.create_snapshot(&volume.cg.unwrap(), "kept").await;
    taken.unwrap().done().unwrap();
    let rig = Rig::start().await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.until::<ExternalVolume>("one-theirs", Value::is_object)
        .await;
    rig.vpsa("two", "gold", &array).await;
    let refused = rig.vpsa_is("two", "Incompatible", "SameArray").await;
    let message = refused["status"]["conditions"][0]["message"].as_str();
    assert!(message.unwrap().contains("VPSA `one` is the same array"));

    rig.delete::<Vpsa>("one").await;
    rig.until::<Vpsa>("one", Value::is_null).await;
    rig.until::<ExternalVolume>("one-theirs", Value::is_null)
        .await;
    // It is the other's from now on, and nothing happened to it.
    rig.vpsa_is("two", "Ready", "Ready").await;
    rig.until::<ExternalVolume>("two-theirs", Value::is_object)
        .await;
    let snapshots = rig.api::<Snapshot>().list(&ListParams::default()).await;
    let snapshots = snapshots.unwrap().items.into_iter();
    let names: Vec<String> = snapshots.filter_map(|it| it.metadata.name).collect();
    assert!(names.iter().all(|it| it.starts_with("two-")), "{names:?}");
    assert_eq!(names.len(), 1);
    assert_eq!(on_array(&array).await, [("theirs".to_owned(), 10)]);
}
