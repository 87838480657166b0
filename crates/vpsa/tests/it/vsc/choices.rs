//! Which array a volume is on: not one that goes, not one that is out of reach, and never at the cost of somebody else's volume.

use serde_json::{Value, json};
use stowage_api::vpsa::{Snapshot, Volume, Vpsa};
use stowage_sim::faults;
use stowage_sim::vpsa::control::{Fault, Trouble};

use crate::vsc::arrays::{api_of, make_volume};
use crate::vsc::rig::{Rig, array};
use crate::vsc::snapshots::{on_array as snapshots_on, snapshot};
use crate::vsc::volumes::{on_array, ready};

/// Keeps an object in place of the driver.
const HOLD: &str = "example.com/hold";

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_goes_while_it_is_chosen_gets_no_volume_and_another_is_chosen() {
    let mut rig = Rig::start().await;
    let ((going, _going), (staying, _staying)) = (array(|_| {}).await, array(|_| {}).await);
    rig.class("gold", json!({})).await;
    for (name, array) in [("going", &going), ("staying", &staying)] {
        rig.vpsa(name, "gold", array).await;
        rig.vpsa_is(name, "Ready", "Ready").await;
    }
    rig.stop_plane().await;
    // Whoever chose their arrays died before anything was made there.
    for (name, array) in [("a", "going"), ("b", "gone"), ("c", "gone")] {
        rig.volume(name, "10Gi", json!({})).await;
        let chosen = json!({"status": {"state": "Creating", "VPSAID": array, "ID": "", "CGID": "", "poolID": ""}});
        rig.patch_status::<Volume>(name, chosen).await;
    }
    let held = json!({"metadata": {"finalizers": ["storage.zadara.com/vsc-delete-protection"]}});
    rig.patch::<Volume>("c", held).await;
    rig.delete::<Volume>("c").await;
    rig.patch::<Vpsa>("going", json!({"metadata": {"finalizers": [HOLD]}}))
        .await;
    rig.delete::<Vpsa>("going").await;
    rig.start_plane();
    for name in ["a", "b"] {
        assert_eq!(ready(&rig, name).await["status"]["VPSAID"], "staying");
    }
    rig.until::<Volume>("c", Value::is_null).await;
    assert_eq!(on_array(&going).await, []);
    assert_eq!(on_array(&staying).await.len(), 2);
    let message = rig.event("a", "SourceMissing").await;
    assert!(
        message.contains("VPSA `going`, which was chosen"),
        "{message}"
    );
    rig.patch::<Vpsa>("going", json!({"metadata": {"finalizers": null}}))
        .await;
    rig.until::<Vpsa>("going", Value::is_null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_somebody_else_made_under_the_same_name_is_left_alone() {
    let rig = Rig::with(|rig| rig.import = false).await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    make_volume(&array, "v").await;
    rig.volume("v", "20Gi", json!({})).await;
    rig.until::<Volume>("v", |it| {
        it["status"]["conditions"][0]["reason"] == "NameTaken"
    })
    .await;
    let message = rig.warning("v", "NameTaken").await;
    assert!(
        message.contains("VPSA `one` has a volume `v`") && message.contains("rename one of them"),
        "{message}"
    );
    rig.delete::<Volume>("v").await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&array).await, [("v".to_owned(), 10)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_failed_does_not_make_somebody_elses_volume_ours() {
    let rig = Rig::with(|rig| rig.import = false).await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    make_volume(&array, "v").await;
    let fault = Fault {
        method: Some("POST".to_owned()),
        path: Some("volumes".to_owned()),
        times: Some(1),
        trouble: Trouble::from(faults::Trouble::Refuse(503)),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
    rig.volume("v", "20Gi", json!({})).await;
    let judged = rig
        .until::<Volume>("v", |it| {
            let state = &it["status"]["state"];
            state == "Ready" || state == "Failed"
        })
        .await;
    assert_eq!(judged["status"]["conditions"][0]["reason"], "NameTaken");
    rig.delete::<Volume>("v").await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&array).await, [("v".to_owned(), 10)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_somebody_else_took_under_the_same_name_is_left_alone() {
    let rig = Rig::with(|rig| rig.import = false).await;
    let (array, _data) = array(|_| {}).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("v", "10Gi", json!({})).await;
    let volume = ready(&rig, "v").await;
    let group = volume["status"]["CGID"].as_str().unwrap().parse().unwrap();
    let taken = api_of(&array).create_snapshot(&group, "s").await.unwrap();
    taken.done().unwrap();
    snapshot(&rig, "s", "v").await;
    let judged = rig
        .until::<Snapshot>("s", |it| {
            let state = &it["status"]["state"];
            state == "Ready" || state == "Failed"
        })
        .await;
    assert_eq!(judged["status"]["conditions"][0]["reason"], "NameTaken");
    rig.warning("s", "NameTaken").await;
    rig.delete::<Snapshot>("s").await;
    rig.until::<Snapshot>("s", Value::is_null).await;
    assert_eq!(snapshots_on(&array).await, ["s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_on_an_array_that_is_reached_from_where_it_is_needed() {
    let rig = Rig::start().await;
    let ((a, _a), (b, _b)) = (
        array(|_| {}).await,
        array(|options| options.pool = vec![("p".to_owned(), 50)]).await,
    );
    // The class speaks for members that say nothing.
    rig.class("gold", json!({"topology": [{"zone": "a"}]}))
        .await;
    rig.vpsa("a", "gold", &a).await;
    rig.vpsa("b", "gold", &b).await;
    rig.patch::<Vpsa>("b", json!({"spec": {"topology": [{"zone": "b"}]}}))
        .await;
    for name in ["a", "b"] {
        rig.vpsa_is(name, "Ready", "Ready").await;
    }
    let both = json!([{"zone": "a"}, {"zone": "b"}]);
    let preferred = json!({"topology": {"requisite": both, "preferred": [{"zone": "b"}]}});
    rig.volume("preferred", "10Gi", preferred.clone()).await;
    assert_eq!(ready(&rig, "preferred").await["status"]["VPSAID"], "b");
    rig.volume("too-large", "100Gi", preferred).await;
    assert_eq!(ready(&rig, "too-large").await["status"]["VPSAID"], "a");
    let only_b = json!({"topology": {"requisite": [{"zone": "b"}]}});
    rig.volume("nowhere", "100Gi", only_b).await;
    let message = rig.event("nowhere", "NoArray").await;
    assert!(
        message.contains("a: it is reached only from nodes with zone=a; b: it has"),
        "{message}"
    );
    let copy = json!({"topology": {"requisite": [{"zone": "a"}]},
        "cloneSource": {"kind": "Volume", "name": "preferred"}});
    rig.volume("copy", "10Gi", copy).await;
    let message = rig.event("copy", "NoArray").await;
    assert!(message.contains("b: its source is there"), "{message}");
}
