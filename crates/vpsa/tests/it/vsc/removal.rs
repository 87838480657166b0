//! Volumes that are to go, and whose array has something against it: what others do there is in no book of ours.

use serde_json::{Value, json};
use stowage_api::vpsa::{FORCE_DELETE, Volume};
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};
use stowage_vpsa::rest::api::{Access, NewServer};
use stowage_vpsa::rest::{Api, PoolId, VolumeId};

use crate::vsc::arrays::api_of;
use crate::vsc::asked::asked;
use crate::vsc::rig::{Rig, array};
use crate::vsc::volumes::{on_array, ready};

/// An array that does whatever is asked for with force, and a volume on it.
async fn scene(rig: &Rig, array: &Array) -> (Api, VolumeId) {
    let turned = array.control().turn(|knobs| knobs.forced_deletions = true);
    turned.await.unwrap();
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("v", "10Gi", json!({})).await;
    let made = ready(rig, "v").await;
    let id = made["status"]["ID"].as_str().unwrap().parse().unwrap();
    (api_of(array), id)
}

/// It is deleted, and says with a condition and a Warning why it does not go.
async fn stays(rig: &Rig, array: &Array, reason: &str) -> String {
    rig.delete::<Volume>("v").await;
    let waits = |it: &Value| it["status"]["conditions"][0]["reason"] == reason || it.is_null();
    let seen = rig.until::<Volume>("v", waits).await;
    assert_eq!(on_array(array).await.len(), 1, "{seen}");
    let said = seen["status"]["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(rig.warning("v", reason).await, said);
    said.to_owned()
}

async fn annotate(rig: &Rig, key: &str, value: &str) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    rig.patch::<Volume>("v", patch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_others_have_attached_is_not_deleted_until_they_let_go_of_it() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::start().await;
    let (api, id) = scene(&rig, &array).await;
    let theirs = NewServer {
        display_name: "of-another-cluster",
        ip: Some("10.0.0.9"),
        iqn: None,
        chap: None,
    };
    let server = api.create_server(&theirs).await.unwrap().done().unwrap();
    let attached = api.attach_volume(&server, &id, Access::Nfs, false).await;
    attached.unwrap().done().unwrap();

    let said = stays(&rig, &array, "AttachedOnArray").await;
    assert!(
        said.contains(server.as_str()) && said.contains(id.as_str()),
        "{said}"
    );
    let detached = api.detach_volume(&id, &[&server]).await;
    detached.unwrap().done().unwrap();
    rig.until::<Volume>("v", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_with_snapshots_of_others_is_deleted_only_by_force_and_only_by_its_own_name() {
    let (array, _data) = array(|_| {}).await;
    // Not imported: nobody here knows of it.
    let rig = Rig::with(|rig| rig.import = false).await;
    let (api, id) = scene(&rig, &array).await;
    let group = api.volume(&id).await.unwrap().unwrap().cg.unwrap();
    let taken = api.create_snapshot(&group, "theirs").await;
    taken.unwrap().done().unwrap();

    let said = stays(&rig, &array, "SnapshotsOnArray").await;
    assert!(said.contains("Delete them there"), "{said}");
    annotate(&rig, FORCE_DELETE, "volume-00000099").await;
    annotate(&rig, "another", "look again").await;
    assert_eq!(on_array(&array).await.len(), 1);
    annotate(&rig, FORCE_DELETE, id.as_str()).await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&array).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_called_otherwise_on_the_array_is_taken_for_anothers() {
    let (array, _data) = array(|_| {}).await;
    let mut rig = Rig::start().await;
    let (api, id) = scene(&rig, &array).await;
    rig.stop_plane().await;
    let renamed = api.rename_volume(&id, "theirs").await;
    renamed.unwrap().done().unwrap();
    rig.delete::<Volume>("v").await;
    rig.start_plane();
    let said = stays(&rig, &array, "OtherVolume").await;
    assert!(
        said.contains("`theirs`") && said.contains("spec.displayName"),
        "{said}"
    );
    // However often it is looked at.
    annotate(&rig, "another", "look again").await;
    asked(&array, "GET volumes/*", 2).await;
    assert_eq!(on_array(&array).await.len(), 1);
    rig.patch::<Volume>("v", json!({"spec": {"displayName": "theirs"}}))
        .await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&array).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_says_no_is_quoted_with_the_way_to_insist() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::start().await;
    let (_, id) = scene(&rig, &array).await;
    let fault = Fault {
        method: Some("DELETE".to_owned()),
        path: Some("volumes/*".to_owned()),
        trouble: Trouble::from(Own::Say {
            status: 7,
            message: "it is mirrored".to_owned(),
        }),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
    let said = stays(&rig, &array, "ArrayFailed").await;
    let command = format!("`{FORCE_DELETE}={id}`");
    assert!(
        said.contains(&command) && said.contains("it is mirrored"),
        "{said}"
    );
    array.control().clear_faults().await.unwrap();
    rig.until::<Volume>("v", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_stays_in_the_recycle_bin_and_leaves_its_name_free() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| rig.empty_recycle_bin = false).await;
    let (api, id) = scene(&rig, &array).await;
    rig.delete::<Volume>("v").await;
    rig.until::<Volume>("v", Value::is_null).await;
    let pool: PoolId = "pool-00010001".parse().unwrap();
    let bin = api.recycle_bin(&pool).await.unwrap();
    assert_eq!(bin.iter().map(|it| &it.id).collect::<Vec<_>>(), [&id]);
    rig.volume("v", "10Gi", json!({})).await;
    let again = ready(&rig, "v").await;
    assert_ne!(again["status"]["ID"], id.as_str());
}
