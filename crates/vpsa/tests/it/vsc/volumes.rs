//! Volumes: made where the allocator says, grown, renamed, copied, deleted; and what becomes of them in trouble.

use serde_json::{Value, json};
use stowage_api::vpsa::Volume;
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};

use crate::vsc::asked::asked;
use crate::vsc::rig::{PATIENCE, Rig, array};

pub async fn ready(rig: &Rig, name: &str) -> Value {
    let is_ready = |it: &Value| it["status"]["conditions"][0]["reason"] == "Ready";
    rig.until::<Volume>(name, is_ready).await
}

/// What is on an array, by name: sizes in GB.
pub async fn on_array(array: &Array) -> Vec<(String, u64)> {
    let objects = array.control().objects().await.unwrap();
    let volumes = objects.volumes.values();
    let mut all: Vec<_> = volumes
        .map(|it| (it.display_name.clone(), it.capacity))
        .collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_made_on_the_better_array_grown_renamed_copied_and_deleted_without_a_trace() {
    let rig = Rig::start().await;
    let (small, _small) = array(|options| options.pool = vec![("p".to_owned(), 100)]).await;
    let (large, _large) = array(|_| {}).await;
    rig.class(
        "gold",
        json!({"volumeFlags": {"compress": false, "dedupe": false, "encrypt": false,
        "extra": {"nfsanonuid": "65500"}}}),
    )
    .await;
    rig.vpsa("small", "gold", &small).await;
    rig.vpsa("large", "gold", &large).await;
    rig.vpsa_is("small", "Ready", "Ready").await;
    rig.vpsa_is("large", "Ready", "Ready").await;
    rig.volume("too-large-for-small", "200Gi", json!({})).await;
    let made = ready(&rig, "too-large-for-small").await;
    assert_eq!(made["status"]["VPSAID"], "large");
    assert_eq!(made["status"]["state"], "Ready");
    let path = made["status"]["NAS"]["NFSExportPath"].as_str().unwrap();
    assert!(path.ends_with(":/export/too-large-for-small"), "{path}");
    let made_there = large.control().objects().await.unwrap();
    let options = &made_there.volumes.values().next().unwrap().options;
    assert_eq!(options["nfsanonuid"], "65500");

    let change = json!({"spec": {"size": "201Gi", "displayName": "renamed"}});
    rig.patch::<Volume>("too-large-for-small", change).await;
    rig.until::<Volume>("too-large-for-small", |it| {
        it["status"]["capacity"] == "201Gi"
    })
    .await;
    assert_eq!(on_array(&large).await, [("renamed".to_owned(), 201)]);

    let source = json!({"cloneSource": {"kind": "Volume", "name": "too-large-for-small"}});
    rig.volume("copy", "250Gi", source).await;
    let copy = ready(&rig, "copy").await;
    assert_eq!(
        (&copy["status"]["VPSAID"], &copy["status"]["capacity"]),
        (&json!("large"), &json!("250Gi"))
    );
    for name in ["copy", "too-large-for-small"] {
        rig.delete::<Volume>(name).await;
        rig.until::<Volume>(name, Value::is_null).await;
    }
    assert_eq!(on_array(&large).await, []);
    assert_eq!(on_array(&small).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_waits_for_an_array_with_room_and_says_what_each_lacks() {
    let rig = Rig::start().await;
    let (small, _small) = array(|options| options.pool = vec![("p".to_owned(), 5)]).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("small", "gold", &small).await;
    rig.vpsa_is("small", "Ready", "Ready").await;
    rig.volume("v", "10Gi", json!({})).await;
    let is_told = |it: &Value| it["status"]["conditions"][0]["reason"] == "NoArray";
    rig.until::<Volume>("v", is_told).await;
    let message = rig.event("v", "NoArray").await;
    assert!(
        message.contains("small: it has 5 GB available and 10 GB are needed"),
        "{message}"
    );
    let (large, _large) = array(|_| {}).await;
    rig.vpsa("large", "gold", &large).await;
    assert_eq!(ready(&rig, "v").await["status"]["VPSAID"], "large");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_make_no_second_volume_and_a_dead_array_holds_its_volumes() {
    let mut rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    for (method, path) in [
        ("POST", "volumes"),
        ("POST", "volumes/*/expand"),
        ("DELETE", "volumes/*"),
    ] {
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            times: Some(1),
            trouble: Trouble::from(Own::DoneButGarbage),
            ..Fault::default()
        };
        array.control().add_fault(fault).await.unwrap();
    }
    rig.volume("v", "10Gi", json!({})).await;
    ready(&rig, "v").await;
    rig.patch::<Volume>("v", json!({"spec": {"size": "11Gi"}}))
        .await;
    rig.until::<Volume>("v", |it| it["status"]["capacity"] == "11Gi")
        .await;
    assert_eq!(on_array(&array).await, [("v".to_owned(), 11)]);

    array.control().stop_endpoint(0).await.unwrap();
    rig.delete::<Volume>("v").await;
    rig.event("v", "ArrayFailed").await;
    rig.stop_plane().await;
    array.control().start_endpoint(0).await.unwrap();
    assert_eq!(
        on_array(&array).await.len(),
        1,
        "nobody is there to delete it"
    );
    rig.start_plane();
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&array).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_that_was_asked_for_is_not_asked_for_again_by_whoever_comes_after_a_crash() {
    // For as long it is waited for the growth.
    let mut rig = Rig::with(|rig| rig.request_timeout = 10 * PATIENCE).await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("v", "10Gi", json!({})).await;
    ready(&rig, "v").await;
    // The array takes it on, and the growth is seen much later.
    let fault = Fault {
        method: Some("POST".to_owned()),
        path: Some("volumes/*/expand".to_owned()),
        times: Some(1),
        trouble: Trouble::from(Own::SubmittedAndForgotten),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
    rig.patch::<Volume>("v", json!({"spec": {"size": "15Gi"}}))
        .await;
    rig.until::<Volume>("v", |it| it["status"]["expansion"]["from"] == "10Gi")
        .await;
    rig.stop_plane().await;
    rig.start_plane();
    asked(&array, "GET volumes/*", 5).await;
    let id = rig
        .until::<Volume>("v", |it| it["status"]["ID"].is_string())
        .await;
    let id = id["status"]["ID"].as_str().unwrap().parse().unwrap();
    let api = crate::vsc::arrays::api_of(&array);
    let grown = api.expand_volume(&id, 5).await.unwrap();
    grown.done().unwrap();
    rig.until::<Volume>("v", |it| {
        it["status"]["capacity"] == "15Gi" && it["status"]["expansion"].is_null()
    })
    .await;
    assert_eq!(on_array(&array).await, [("v".to_owned(), 15)]);
}
