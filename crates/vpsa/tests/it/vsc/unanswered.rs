//! Requests that the array takes on, or carries out late, while nobody hears of it: what they make has an owner.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stowage_api::vpsa::{Snapshot, Volume};
use stowage_sim::faults;
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};

use crate::vsc::asked::{reaches, times};
use crate::vsc::rig::{PATIENCE, Rig, array};
use crate::vsc::snapshots::{on_array as snapshots_on, snapshot};
use crate::vsc::volumes::{on_array, ready};

/// How long it takes until what the array was asked for is seen, in milliseconds.
const LATE: u64 = 10_000;

async fn ready_rig(array: &Array, request_timeout: Duration) -> Rig {
    let rig = Rig::with(|rig| {
        rig.import = false;
        rig.request_timeout = request_timeout;
    })
    .await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("source", "10Gi", json!({})).await;
    ready(&rig, "source").await;
    rig
}

async fn strike(array: &Array, path: &str, trouble: Trouble) {
    let fault = Fault {
        method: Some("POST".to_owned()),
        path: Some(path.to_owned()),
        times: Some(1),
        trouble,
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
}

/// How many objects an array has made so far.
async fn made(array: &Array) -> u32 {
    let objects = array.control().objects().await.unwrap();
    objects.vpsa().next_number
}

/// Returns when the array has made one more, for nobody who waits for it.
async fn makes_one_more(array: &Array, before: u32) {
    let deadline = Instant::now() + PATIENCE;
    while made(array).await <= before {
        assert!(Instant::now() < deadline, "the array makes nothing");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_deleted_before_it_is_seen_is_deleted_on_the_array_too() {
    let (array, _data) = array(|_| {}).await;
    let mut rig = ready_rig(&array, Duration::from_secs(10)).await;
    array
        .control()
        .turn(|knobs| knobs.clone_delay = LATE)
        .await
        .unwrap();
    let copy = json!({"cloneSource": {"kind": "Volume", "name": "source"}});
    for (name, path, trouble, more) in [
        (
            "lost",
            "consistency_groups/*/clone",
            Trouble::from(Own::DoneButGarbage),
            &copy,
        ),
        (
            "submitted",
            "consistency_groups/*/clone",
            Trouble::from(Own::Submitted),
            &copy,
        ),
        (
            "late",
            "volumes",
            Trouble::from(faults::Trouble::Delay(LATE)),
            &json!({}),
        ),
    ] {
        strike(&array, path, trouble).await;
        let (kind, made) = (format!("POST {path}"), made(&array).await);
        let before = times(&array, &kind).await;
        rig.volume(name, "10Gi", more.clone()).await;
        reaches(&array, &kind, before + 1).await;
        // Whoever asked does not hear of it.
        rig.stop_plane().await;
        rig.delete::<Volume>(name).await;
        rig.start_plane();
        rig.until::<Volume>(name, Value::is_null).await;
        makes_one_more(&array, made).await;
        assert_eq!(
            on_array(&array).await,
            [("source".to_owned(), 10)],
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_deleted_before_it_is_seen_is_deleted_on_the_array_too() {
    let (array, _data) = array(|_| {}).await;
    let mut rig = ready_rig(&array, Duration::from_secs(10)).await;
    let path = "consistency_groups/*/snapshots";
    strike(&array, path, faults::Trouble::Delay(LATE).into()).await;
    let (kind, made) = (format!("POST {path}"), made(&array).await);
    snapshot(&rig, "s", "source").await;
    reaches(&array, &kind, 1).await;
    rig.stop_plane().await;
    rig.delete::<Snapshot>("s").await;
    rig.start_plane();
    rig.until::<Snapshot>("s", Value::is_null).await;
    makes_one_more(&array, made).await;
    assert_eq!(snapshots_on(&array).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_array_refused_or_never_made_does_not_keep_a_volume_for_ever() {
    let (array, _data) = array(|_| {}).await;
    let mut rig = ready_rig(&array, Duration::from_secs(3)).await;
    let refusal = Own::Say {
        status: 1,
        message: "The capacity must be smaller".to_owned(),
    };
    for (name, trouble) in [
        ("refused", Trouble::from(refusal)),
        ("forgotten", Trouble::from(faults::Trouble::Drop)),
    ] {
        strike(&array, "volumes", trouble).await;
        let before = times(&array, "POST volumes").await;
        rig.volume(name, "10Gi", json!({})).await;
        reaches(&array, "POST volumes", before + 1).await;
        rig.stop_plane().await;
        rig.delete::<Volume>(name).await;
        rig.start_plane();
        rig.until::<Volume>(name, Value::is_null).await;
    }
    assert_eq!(on_array(&array).await, [("source".to_owned(), 10)]);
}

/// More than are worked on at once.
const MANY: usize = 300;

/// A rig with one array that is to be silent and one that is not, each in a class of its own.
async fn beside(silent: &Array, other: &Array) -> Rig {
    let rig = Rig::with(|rig| {
        // None of the calls is given up before the test is.
        rig.request_timeout = 2 * PATIENCE;
        rig.monitor_interval = Duration::from_secs(5);
    })
    .await;
    for (class, vpsa, array) in [("gold", "one", silent), ("silver", "two", other)] {
        rig.class(class, json!({})).await;
        rig.vpsa(vpsa, class, array).await;
        rig.vpsa_is(vpsa, "Ready", "Ready").await;
    }
    rig
}

async fn silence(array: &Array, path: Option<&str>) {
    let forever = u64::try_from(2 * PATIENCE.as_millis()).unwrap();
    let fault = Fault {
        path: path.map(str::to_owned),
        trouble: faults::Trouble::Delay(forever).into(),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
}

async fn goes_on(rig: &Rig, other: &Array) {
    rig.volume("v", "1Gi", json!({"VSCStorageClassName": "silver"}))
        .await;
    ready(rig, "v").await;
    assert_eq!(on_array(other).await, [("v".to_owned(), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_volumes_of_an_array_that_does_not_answer_hold_up_none_of_another() {
    let ((silent, _first), (other, _second)) = (array(|_| {}).await, array(|_| {}).await);
    let rig = beside(&silent, &other).await;
    silence(&silent, Some("volumes")).await;
    let before = times(&silent, "GET volumes").await;
    for number in 0..MANY {
        rig.volume(&format!("waiting-{number}"), "1Gi", json!({}))
            .await;
    }
    // As many as are under way on one array at once, but for a look at the array itself.
    reaches(&silent, "GET volumes", before + 7).await;
    goes_on(&rig, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_starts_beside_a_silent_array_serves_the_others() {
    let ((silent, _first), (other, _second)) = (array(|_| {}).await, array(|_| {}).await);
    let mut rig = beside(&silent, &other).await;
    rig.stop_plane().await;
    for number in 1..=MANY {
        let name = format!("there-{number}");
        rig.volume(&name, "1Gi", json!({})).await;
        let id = format!("volume-{number:08x}");
        let status = json!({"state": "Ready", "VPSAID": "one", "ID": id, "CGID": "", "poolID": ""});
        rig.patch_status::<Volume>(&name, json!({"status": status}))
            .await;
    }
    silence(&silent, None).await;
    let before = times(&silent, "GET volumes/*").await;
    rig.start_plane();
    goes_on(&rig, &other).await;
    // Whoever has not answered is not asked for each of them.
    assert_eq!(times(&silent, "GET volumes/*").await, before);
}
