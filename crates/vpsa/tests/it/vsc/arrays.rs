//! VPSAs: added, broken, mended, imported, deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use stowage_api::vpsa::{ExternalVolume, Snapshot, Volume, Vpsa, VscStorageClass};
use stowage_sim::vpsa::Array;
use stowage_vpsa::rest::api::{Kind, NewVolume};
use stowage_vpsa::rest::{Api, Client, ClientOptions, Trust};

use crate::vsc::rig::{Rig, array};

pub fn api_of(array: &Array) -> Api {
    let address = array.hostname().parse().unwrap();
    let options = ClientOptions::new(
        address,
        Trust::Plain,
        SecretString::from(array.access_key()),
    );
    let client = std::sync::Arc::new(Client::new(options).unwrap());
    client.within(Duration::from_secs(30))
}

pub async fn make_volume(array: &Array, name: &str) {
    make_volume_of(array, name, 10).await;
}

/// The same with so many GB.
pub async fn make_volume_of(array: &Array, name: &str, capacity: u64) {
    let pool = "pool-00010001".parse().unwrap();
    let new = NewVolume {
        name,
        capacity,
        pool: &pool,
        kind: Kind::Nas,
        options: &BTreeMap::new(),
    };
    api_of(array)
        .create_volume(&new)
        .await
        .unwrap()
        .done()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_checked_imported_and_ready_and_comes_back_after_trouble() {
    let rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    make_volume(&array, "Made_Before").await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    let ready = rig.vpsa_is("one", "Ready", "Ready").await;
    let token = ready["spec"]["token"].as_str().unwrap();
    assert!(token.starts_with("AES2:"), "{token}");
    assert!(!ready.to_string().contains(array.access_key()), "{ready}");
    assert_eq!(
        ready["metadata"]["finalizers"],
        json!(["storage.zadara.com/vsc-delete-protection"])
    );
    assert_eq!(
        ready["status"]["version"]["softwareVersion"],
        "23.09-sp1-100"
    );
    assert_eq!(ready["status"]["capacity"]["total"], "1000Gi");
    assert_eq!(ready["status"]["LegacyVPSA"], false);
    assert!(
        ready["status"]["CHAPSecret"]
            .as_str()
            .unwrap()
            .starts_with("AES2:")
    );
    for state in ["Configuring", "Importing", "Ready"] {
        rig.event("one", state).await;
    }
    let record =
        rig.until::<ExternalVolume>("one-made-before", |it| it["status"]["ID"].is_string());
    let record = record.await;
    assert_eq!(record["status"]["VPSAID"], "one");
    assert_eq!(record["spec"]["size"], "10Gi");
    records_go_with_what_they_record(&rig, &array, &record).await;

    array
        .control()
        .set_access_key("ANOTHERACCESSKEY-2")
        .await
        .unwrap();
    let away = rig.vpsa_is("one", "Unreachable", "Credentials").await;
    let message = away["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("refuses the access key"), "{message}");
    assert_eq!(rig.event("one", "Unreachable").await, message);
    rig.patch::<Vpsa>("one", json!({"spec": {"token": "ANOTHERACCESSKEY-2"}}))
        .await;
    rig.vpsa_is("one", "Ready", "Ready").await;

    array.control().stop_endpoint(0).await.unwrap();
    rig.vpsa_is("one", "Unreachable", "NoAnswer").await;
    array.control().start_endpoint(0).await.unwrap();
    rig.vpsa_is("one", "Ready", "Ready").await;
}

/// What `kubectl apply` is given.
fn applied(array: &Array, token: &Value, name: &str) -> String {
    let mut object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA", "metadata": {"name": "one"},
        "spec": {"VSCStorageClassName": "gold", "displayName": name, "hostname": array.hostname(),
            "tls": {"enabled": false}}});
    if token.is_string() {
        object["spec"]["token"] = token.clone();
    }
    object.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_an_array_that_was_applied_tells_its_token_and_it_can_be_applied_again() {
    let rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    let token = json!(array.access_key());
    for name in ["one", "renamed"] {
        rig.apply(&applied(&array, &token, name));
        let ready = rig
            .until::<Vpsa>("one", |it| {
                it["status"]["state"] == "Ready"
                    && it["spec"]["displayName"] == name
                    && it["spec"]["token"]
                        .as_str()
                        .is_some_and(|it| it.starts_with("AES2:"))
            })
            .await;
        let whole = ready.to_string();
        assert!(!whole.contains(array.access_key()), "{ready:#}");
        let last = "kubectl.kubernetes.io/last-applied-configuration";
        let last = ready["metadata"]["annotations"][last].as_str().unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        assert_eq!(last["spec"]["displayName"], name);
        assert_eq!(last["spec"]["token"], ready["spec"]["token"]);
    }
    // What is no longer applied goes, as with any object.
    rig.apply(&applied(&array, &Value::Null, "without"));
    let without = rig
        .until::<Vpsa>("one", |it| it["spec"]["displayName"] == "without")
        .await;
    assert!(without["spec"]["token"].is_null(), "{without:#}");
}

/// A snapshot that is deleted at the array, then its volume.
async fn records_go_with_what_they_record(rig: &Rig, array: &Array, record: &Value) {
    let (api, status) = (api_of(array), &record["status"]);
    let group = status["CGID"].as_str().unwrap().parse().unwrap();
    let taken = api.create_snapshot(&group, "nightly").await.unwrap();
    let taken = taken.done().unwrap();
    let name = format!("one-{taken}");
    rig.until::<Snapshot>(&name, |it| it["status"]["state"] == "Ready")
        .await;
    // As long as the array has it, it has a record.
    rig.delete::<Snapshot>(&name).await;
    rig.until::<Snapshot>(&name, |it| {
        it["status"]["state"] == "Ready" && it["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    api.delete_snapshot(&taken).await.unwrap().done().unwrap();
    rig.until::<Snapshot>(&name, Value::is_null).await;
    let volume = status["ID"].as_str().unwrap().parse().unwrap();
    api.delete_volume(&volume, false)
        .await
        .unwrap()
        .done()
        .unwrap();
    rig.until::<ExternalVolume>("one-made-before", Value::is_null)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_does_not_fit_says_why_and_fits_once_that_is_mended() {
    let rig = Rig::start().await;
    let (old, _data) = array(|options| options.release = Some("20.12-sp1".parse().unwrap())).await;
    let (pools, _pools) = array(|options| {
        options.pool = vec![("fast".to_owned(), 100), ("slow".to_owned(), 200)];
    })
    .await;
    rig.vpsa("old", "gold", &old).await;
    rig.vpsa("pools", "gold", &pools).await;
    let early = rig.vpsa_is("old", "Incompatible", "Version").await;
    let message = early["status"]["conditions"][0]["message"].to_string();
    assert!(message.contains("20.12-sp2 or newer"), "{message}");
    rig.event("old", "Incompatible").await;
    rig.vpsa_is("pools", "Configuring", "NoClass").await;
    rig.class("gold", json!({})).await;
    rig.vpsa_is("pools", "Incompatible", "Pools").await;
    rig.patch::<VscStorageClass>("gold", json!({"spec": {"poolName": "slow"}}))
        .await;
    rig.vpsa_is("pools", "Ready", "Ready").await;
    rig.patch::<VscStorageClass>("gold", json!({"spec": {"poolName": null}}))
        .await;
    old.control().upgrade("22.06-sp1").await.unwrap();
    rig.vpsa_is("old", "Ready", "Ready").await;
    let foreign = json!({"spec": {"token": "AES:abcdef"}});
    rig.patch::<Vpsa>("old", foreign).await;
    let reported = rig.vpsa_is("old", "Unreachable", "InvalidSpec").await;
    assert_eq!(reported["spec"]["token"], "AES:abcdef", "it is left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_goes_when_nothing_is_on_it_even_if_it_is_dead() {
    let mut rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    on_array_one(&rig).await;
    let held = |it: &Value| it["metadata"]["finalizers"].is_array();
    rig.until::<Snapshot>("s", held).await;
    rig.delete::<Vpsa>("one").await;
    rig.vpsa_is("one", "Deleting", "InUse").await;
    array.control().stop_endpoint(0).await.unwrap();

    // Nobody is there to let it go.
    rig.stop_plane().await;
    rig.delete::<Snapshot>("s").await;
    // By force: the array that has it is dead.
    rig.patch::<Snapshot>("s", json!({"metadata": {"finalizers": null}}))
        .await;
    rig.until::<Snapshot>("s", Value::is_null).await;
    rig.until::<Vpsa>("one", Value::is_object).await;
    rig.start_plane();
    rig.until::<Vpsa>("one", Value::is_null).await;
}

/// A Snapshot that is on array `one`. Whoever looks at it meanwhile keeps that.
async fn on_array_one(rig: &Rig) {
    let snapshot = json!({"apiVersion": "storage.zadara.com/v1", "kind": "Snapshot", "metadata": {"name": "s"},
        "spec": {"displayName": "s", "volumeID": "v"}});
    rig.create::<Snapshot>(snapshot).await;
    let status = json!({"status": {"state": "Ready", "VPSAID": "one"}});
    rig.patch_status::<Snapshot>("s", status).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_let_go_on_the_word_of_watches_that_are_behind() {
    let rig = Rig::with(|rig| rig.is_behind = true).await;
    for class in ["gold", "empty"] {
        rig.class(class, json!({})).await;
    }
    let ((one, _one), (two, _two)) = (array(|_| {}).await, array(|_| {}).await);
    for (name, array) in [("one", &one), ("two", &two)] {
        rig.vpsa(name, "gold", array).await;
        rig.vpsa_is(name, "Ready", "Ready").await;
    }
    on_array_one(&rig).await;
    let in_class = json!({"VSCStorageClassName": "used"});
    rig.volume("v", "10Gi", in_class).await;
    rig.class("used", json!({})).await;
    let held = |it: &Value| it["metadata"]["finalizers"].is_array();
    rig.until::<VscStorageClass>("used", held).await;
    rig.delete::<Vpsa>("one").await;
    rig.delete::<VscStorageClass>("used").await;
    // Those that nobody needs go, and by then it was looked at those that somebody needs.
    rig.delete::<Vpsa>("two").await;
    rig.delete::<VscStorageClass>("empty").await;
    rig.until::<Vpsa>("two", Value::is_null).await;
    rig.until::<VscStorageClass>("empty", Value::is_null).await;
    rig.until::<Vpsa>("one", Value::is_object).await;
    rig.until::<VscStorageClass>("used", Value::is_object).await;

    rig.delete::<Snapshot>("s").await;
    rig.delete::<Volume>("v").await;
    rig.until::<Vpsa>("one", Value::is_null).await;
    rig.until::<VscStorageClass>("used", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_and_what_the_old_ones_wrote_is_written_again() {
    let (array, _data) = array(|_| {}).await;
    let mut rig = Rig::start().await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    let secrets = |it: &Value| {
        [
            it["spec"]["token"].clone(),
            it["status"]["CHAPSecret"].clone(),
        ]
    };
    let before = secrets(&rig.vpsa_is("one", "Ready", "Ready").await);
    rig.stop_plane().await;
    rig.keys = &["n", "k"];
    rig.start_plane();
    let anew = |it: &Value| {
        secrets(it)
            .iter()
            .zip(&before)
            .all(|(now, then)| now != then)
    };
    rig.until::<Vpsa>("one", anew).await;
    // Without the old ones nothing is missing.
    rig.stop_plane().await;
    rig.keys = &["n"];
    rig.start_plane();
    rig.volume("share", "10Gi", json!({})).await;
    let ready = |it: &Value| it["status"]["state"] == "Ready";
    rig.until::<Volume>("share", ready).await;
    let after = rig.vpsa_is("one", "Ready", "Ready").await;
    assert!(anew(&after), "{after:#}");
}
