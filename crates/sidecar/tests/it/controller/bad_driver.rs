//! Drivers that do not keep their promises: each failure is told on the claim, counted, and disturbs nobody else.

use std::time::{Duration, Instant};

use serde_json::json;
use stowage_memory_driver::{Fault, Mishap, Room};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, eventually};
use tonic::Code;

/// A driver with a fault, a sidecar, and a claim `data` that suffers.
async fn faulty(fault: Fault) -> (Rig, Running) {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.driver.set(fault);
    rig.claim("data", json!({})).await;
    (rig, sidecar)
}

/// The failure is on the claim and in the metrics; once the driver is mended, the claim is bound to the only volume.
async fn told_and_made_good(rig: &Rig, sidecar: &Running, says: &str) {
    told(rig, sidecar, says).await;
    rig.driver.mend();
    made_good(rig).await;
}

async fn told(rig: &Rig, sidecar: &Running, says: &str) {
    rig.event("data", "ProvisioningFailed", says).await;
    let failed = "controller_persistentvolumeclaim_provision_failed_total";
    sidecar.shows(&[failed, &rig.name]).await;
    let uid = rig.get_claim("data").await.metadata.uid.unwrap();
    let failing = "stowage_workqueue_failing_seconds{name=\"claims\"";
    sidecar.shows(&[failing, &uid, says]).await;
}

async fn made_good(rig: &Rig) {
    rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
    rig.journal_is_empty().await;
    rig.delete_claim("data").await;
    rig.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_too_small_is_deleted_and_asked_for_again() {
    let (rig, sidecar) = faulty(Fault::VolumeTooSmall).await;
    let says = "made a volume of 536870912 bytes, but 1073741824 were requested";
    told_and_made_good(&rig, &sidecar, says).await;
    assert!(rig.driver.deleted_volumes().len() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_without_an_id_is_asked_for_again() {
    let (rig, sidecar) = faulty(Fault::VolumeWithoutId).await;
    told_and_made_good(&rig, &sidecar, "made a volume without an id").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_ten_thousand_bytes_is_not_written_anywhere() {
    let (rig, sidecar) = faulty(Fault::VolumeIdTooLong).await;
    told_and_made_good(&rig, &sidecar, "a volume with an id of 10000 bytes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_volume_is_no_volume() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    let full = Room {
        available: 0,
        ..Room::default()
    };
    rig.driver.set_room([], full);
    rig.driver.set(Fault::Accepts("CreateVolume"));
    rig.claim("data", json!({})).await;
    told(&rig, &sidecar, "answered without a volume").await;
    rig.driver.set_room([], Room::default());
    rig.driver.mend();
    made_good(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_does_not_answer_one_claim_still_serves_the_others() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--timeout=2s"]);
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", Mishap::hang().times(2));
    rig.claim("data", json!({})).await;
    rig.called("CreateVolume", 1).await;
    rig.claim("second", json!({})).await;
    rig.called("CreateVolume", 2).await;
    rig.claim("third", json!({})).await;
    rig.bound("third").await;
    assert_eq!(rig.driver.calls("CreateVolume"), 3);
    rig.event("data", "ProvisioningFailed", "code = DeadlineExceeded")
        .await;
    sidecar
        .shows(&[
            "csi_sidecar_operations_seconds_count",
            "CreateVolume",
            "DeadlineExceeded",
            " 2",
        ])
        .await;
    rig.bound("data").await;
    rig.bound("second").await;
    assert_eq!(rig.driver.volumes().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_comes_back_under_another_name_ends_the_process() {
    let mut rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    rig.stop_driver().await;
    rig.driver.set(Fault::NameChanged);
    rig.serve();
    let error = sidecar.ended().await.unwrap_err().to_string();
    assert!(error.contains(&rig.name), "{error}");
    assert!(error.contains("another.csi.test"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_of_another_name_than_expected_is_refused() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--driver-name=expected.csi.test"]);
    let error = sidecar.ended().await.unwrap_err().to_string();
    assert!(error.contains(&rig.name), "{error}");
    assert!(error.contains("expected.csi.test"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_is_restarted_is_connected_to_again() {
    let mut rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--timeout=1s"]);
    rig.class(json!({})).await;
    rig.claim("before", json!({})).await;
    rig.bound("before").await;
    rig.stop_driver().await;
    rig.claim("data", json!({})).await;
    rig.event("data", "ProvisioningFailed", "code = ").await;
    assert!(sidecar.runs().await);
    rig.serve();
    rig.bound("data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_running_stays_in_the_journal_and_what_is_final_does_not() {
    for (code, stays) in [
        (Code::Unavailable, true),
        (Code::Aborted, true),
        (Code::DeadlineExceeded, true),
        (Code::Cancelled, true),
        (Code::Internal, false),
        (Code::OutOfRange, false),
        (Code::ResourceExhausted, false),
    ] {
        let rig = Rig::plain().await;
        let sidecar = rig.sidecar(run, &["--retry-interval-start=20s"]);
        rig.class(json!({})).await;
        rig.driver
            .upset("CreateVolume", Mishap::refuse(code, "not now"));
        rig.claim("data", json!({})).await;
        rig.event("data", "ProvisioningFailed", "desc = not now")
            .await;
        if !stays {
            rig.journal_is_empty().await;
        }
        sidecar.stop().await.unwrap();
        assert_eq!(rig.intents().await.len(), usize::from(stays), "{code:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_that_the_driver_refuses_is_not_sent_again_until_the_class_is_another_one() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"parameters": {"tier": "lead"}})).await;
    rig.driver.upset(
        "CreateVolume",
        Mishap::refuse(Code::InvalidArgument, "no such tier").once(),
    );
    rig.claim("data", json!({})).await;
    rig.event(
        "data",
        "ProvisioningFailed",
        "code = InvalidArgument desc = no such tier",
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    sidecar
        .shows(&["stowage_workqueue_failing_seconds", "no such tier"])
        .await;
    rig.delete_class().await;
    rig.class(json!({"parameters": {"tier": "gold"}})).await;
    rig.bound("data").await;
    let last = rig.creations().pop().unwrap();
    assert_eq!(last.parameters["tier"], "gold");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_deleted_again_stays_in_the_journal_and_is_told() {
    let (rig, _sidecar) = faulty(Fault::VolumeTooSmall).await;
    rig.driver.set(Fault::VolumeCannotBeDeleted);
    rig.event(
        "data",
        "ProvisioningCleanupFailed",
        "cannot be deleted again",
    )
    .await;
    assert_eq!(rig.intents().await, ["data"]);
    rig.delete_claim("data").await;
    rig.driver.mend();
    rig.nothing_left().await;
    rig.journal_is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_fails_is_tried_ever_less_often_and_foreign_writes_do_not_change_that() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &["--retry-interval-start=500ms"]);
    rig.class(json!({})).await;
    let broken = Mishap::refuse(Code::Internal, "broken").times(3);
    rig.driver.upset("CreateVolume", broken);
    let begun = Instant::now();
    rig.claim("data", json!({})).await;
    // The annotations are nothing that we read.
    let mut number = 0;
    while rig.driver.calls("CreateVolume") < 4 {
        rig.annotate("data", "example.com/touched", Some(&number.to_string()))
            .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        number += 1;
    }
    let waited = begun.elapsed();
    assert!(
        waited >= Duration::from_millis(3500),
        "0.5, 1 and 2 seconds, not {waited:?}"
    );
    eventually("it is made in the end", async || {
        (rig.driver.volumes().len() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_journal_makes_claims_wait_and_does_not_stop_those_who_free_it() {
    let rig = Rig::new(|profile| profile).await;
    let sidecar = rig.sidecar(run, &["--worker-threads=1", "--retry-interval-max=1s"]);
    // Two classes of which the journal can hold one: names by chance cannot be compressed.
    let many_zones = |seed: u64| {
        let mut chance = fastrand::Rng::with_seed(seed);
        let zones: Vec<_> = (0..4000)
            .map(|_| format!("{:032x}{:012x}", chance.u128(..), chance.u64(..1 << 48)))
            .collect();
        let labels = json!([{"key": "topology.stowage.test/zone", "values": zones}]);
        json!([{ "matchLabelExpressions": labels }])
    };
    rig.class(json!({"allowedTopologies": many_zones(1)})).await;
    let other = format!("{}-other", rig.name);
    let class = json!({"metadata": {"name": other}, "allowedTopologies": many_zones(2)});
    rig.class(class).await;
    let away = Mishap::refuse(Code::Unavailable, "the array is away");
    rig.driver.upset("CreateVolume", away);
    rig.claim("data", json!({})).await;
    rig.event("data", "ProvisioningFailed", "the array is away")
        .await;
    let claim = json!({"spec": {"storageClassName": other}});
    rig.claim("waits", claim).await;
    rig.event(
        "waits",
        "ProvisioningFailed",
        "the intent journal takes no entry",
    )
    .await;
    sidecar.shows(&["stowage_sidecar_journal_full 1"]).await;
    assert_eq!(rig.intents().await, ["data"]);
    rig.driver.mend();
    rig.bound("data").await;
    rig.bound("waits").await;
    assert_eq!(rig.driver.most_at_once("CreateVolume"), 1);
}

/// Of a class that fails, as many as there are workers are tried; the rest leaves journal and driver to others.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_whose_volumes_fail_does_not_fill_the_journal() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &["--worker-threads=2", "--retry-interval-max=1s"]);
    rig.class(json!({})).await;
    let away = Mishap::refuse(Code::Unavailable, "the array is away");
    rig.driver.upset("CreateVolume", away);
    for name in ["one", "two"] {
        rig.claim(name, json!({})).await;
        rig.event(name, "ProvisioningFailed", "the array is away")
            .await;
    }
    for name in ["three", "four"] {
        rig.claim(name, json!({})).await;
        rig.event(
            name,
            "ProvisioningFailed",
            "waits for volumes of the same class",
        )
        .await;
    }
    let mut intents = rig.intents().await;
    intents.sort();
    assert_eq!(intents, ["one", "two"]);
    rig.driver.mend();
    for name in ["one", "two", "three", "four"] {
        rig.bound(name).await;
    }
}
