//! Whatever ends in the middle, nothing is left behind and nothing is made twice.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use stowage_memory_driver::{Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};
use tokio::time::sleep;

/// The driver does what it is asked and takes its time to say so.
fn slow_answer(milliseconds: u64) -> Mishap {
    Mishap::new(
        Moment::After,
        Trouble::Delay(Duration::from_millis(milliseconds)),
    )
}

/// A rig whose driver has made a volume for the claim `data` that nobody knows of: the sidecar was killed first.
pub(crate) async fn killed_before_the_object() -> Rig {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"parameters": {"tier": "gold"}})).await;
    rig.driver.upset("CreateVolume", slow_answer(60_000).once());
    rig.claim("data", json!({})).await;
    the_driver_has(&rig, 1).await;
    assert_eq!(rig.intents().await, ["data"]);
    sidecar.kill().await;
    rig
}

pub(crate) async fn the_driver_has(rig: &Rig, count: usize) {
    eventually(&format!("the driver has {count} volumes"), async || {
        (rig.driver.volumes().len() == count).then_some(())
    })
    .await;
}

fn both_calls_are_the_same(rig: &Rig) {
    let all = rig.creations();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], all[1]);
}

/// The object of a volume, by hand.
pub(crate) fn object(rig: &Rig, name: &str, driver: &str, handle: &str, claim: &Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": claim,
            "csi": {"driver": driver, "volumeHandle": handle},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": rig.name,
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_was_made_and_not_written_down_is_found_again() {
    let rig = killed_before_the_object().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.bound("data").await;
    both_calls_are_the_same(&rig);
    assert_eq!(rig.driver.volumes().len(), 1);
    rig.journal_is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_claim_was_deleted_meanwhile_goes_too() {
    let rig = killed_before_the_object().await;
    rig.delete_claim("data").await;
    rig.claim_is_gone("data").await;
    let _sidecar = rig.sidecar(run, &[]);
    the_driver_has(&rig, 0).await;
    both_calls_are_the_same(&rig);
    rig.journal_is_empty().await;
    assert!(rig.own_volumes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_class_may_be_gone_by_then() {
    let rig = killed_before_the_object().await;
    rig.delete_class().await;
    let _sidecar = rig.sidecar(run, &["--extra-create-metadata", "--default-fstype=xfs"]);
    let volume = rig.bound("data").await;
    both_calls_are_the_same(&rig);
    assert_eq!(volume.spec.unwrap().csi.unwrap().fs_type, None);
    rig.journal_is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_class_the_claim_and_the_secret_may_all_be_gone() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login",
        "csi.storage.k8s.io/provisioner-secret-namespace": rig.namespace,
    }}))
    .await;
    rig.secret("login", "user", "admin").await;
    rig.driver.upset("CreateVolume", slow_answer(60_000).once());
    rig.claim("data", json!({})).await;
    the_driver_has(&rig, 1).await;
    sidecar.kill().await;
    rig.delete_claim("data").await;
    rig.delete_class().await;
    rig.delete_secret("login").await;
    let _sidecar = rig.sidecar(run, &[]);
    the_driver_has(&rig, 0).await;
    rig.journal_is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_deleted_during_the_call_takes_its_volume_with_it() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", slow_answer(1000).once());
    rig.claim("data", json!({})).await;
    the_driver_has(&rig, 1).await;
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    rig.journal_is_empty().await;
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.driver
        .upset("CreateVolume", Mishap::lose_answer().once());
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    both_calls_are_the_same(&rig);
    assert_eq!(rig.driver.volumes().len(), 1);
    sidecar.stop().await.unwrap();
    assert!(rig.intents().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn intents_can_be_resolved_before_going_back_and_nothing_new_is_begun() {
    let rig = killed_before_the_object().await;
    rig.claim("late", json!({})).await;
    let resolving = rig.sidecar(run, &["--resolve-intents-and-exit"]);
    resolving.ended().await.unwrap();
    assert!(rig.intents().await.is_empty());
    rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
    assert_eq!(rig.driver.calls("CreateVolume"), 2);
    // Without anything to resolve it ends at once.
    rig.sidecar(run, &["--resolve-intents-and-exit"])
        .ended()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn being_asked_to_stop_finishes_what_is_under_way_and_empties_the_journal() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", slow_answer(1000));
    for number in 0..5 {
        rig.claim(&format!("data-{number}"), json!({})).await;
    }
    rig.called("CreateVolume", 5).await;
    sidecar.stop().await.unwrap();
    assert_eq!(rig.own_volumes().await.len(), 5);
    assert!(rig.intents().await.is_empty());
    assert_eq!(rig.driver.calls("CreateVolume"), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_at_the_end_is_left_to_the_next_process() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--timeout=1s"]);
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", Mishap::hang().once());
    rig.claim("data", json!({})).await;
    rig.called("CreateVolume", 1).await;
    sidecar.stop().await.unwrap();
    assert_eq!(rig.intents().await, ["data"]);
    let _sidecar = rig.sidecar(run, &[]);
    rig.bound("data").await;
    both_calls_are_the_same(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_driver_under_the_volumes_name_is_an_error() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let claim = rig.claim("data", json!({})).await;
    let name = format!("pvc-{}", claim.metadata.uid.clone().unwrap());
    let nobodys = json!({"namespace": rig.namespace, "name": "other", "uid": "other"});
    let foreign = object(&rig, &name, "another.driver.test", "vol-1", &nobodys);
    create::<PersistentVolume>(&rig.volumes(), foreign).await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.event("data", "ProvisioningFailed", "exists and is not the volume")
        .await;
    rig.volumes()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_claim_under_the_volumes_name_is_an_error() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let claim = rig.claim("data", json!({})).await;
    let name = format!("pvc-{}", claim.metadata.uid.clone().unwrap());
    let others = json!({"namespace": rig.namespace, "name": "other", "uid": "other"});
    let foreign = object(&rig, &name, &rig.name, "vol-1", &others);
    create::<PersistentVolume>(&rig.volumes(), foreign).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.event("data", "ProvisioningFailed", "belongs to another claim")
        .await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_this_very_volume_is_success() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", slow_answer(1000).once());
    let claim = rig.claim("data", json!({})).await;
    the_driver_has(&rig, 1).await;
    let uid = claim.metadata.uid.unwrap();
    let own = json!({"namespace": rig.namespace, "name": "data", "uid": uid});
    let handle = rig.driver.volumes()[0].id.clone();
    let same = object(&rig, &format!("pvc-{uid}"), &rig.name, &handle, &own);
    create::<PersistentVolume>(&rig.volumes(), same).await;
    rig.event("data", "ProvisioningSucceeded", "").await;
    rig.bound("data").await;
    rig.journal_is_empty().await;
    assert_eq!(
        sidecar.metric("controller_persistentvolumeclaim_provision_failed_total"),
        [""; 0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_claims_never_share_a_volume_however_short_its_name() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--volume-name-uuid-length=1"]);
    rig.class(json!({})).await;
    // Sixteen names for seventeen claims.
    for number in 0..17 {
        let claim = rig.claim(&format!("data-{number}"), json!({})).await;
        let uid = claim.metadata.uid.unwrap();
        let name = format!("pvc-{}", &uid[..1]);
        let volume = rig.volumes().get_opt(&name).await.unwrap();
        let owner = volume.map(|volume| volume.spec.unwrap().claim_ref.unwrap().uid.unwrap());
        // It may be there already, and its own.
        if owner.is_some_and(|owner| owner != uid) {
            let says = format!("volume `{name}` exists and belongs to another claim");
            rig.event(&format!("data-{number}"), "ProvisioningFailed", &says)
                .await;
            rig.delete_claim(&format!("data-{number}")).await;
            assert!(sidecar.runs().await);
            assert_eq!(rig.driver.calls("DeleteVolume"), 0);
            return;
        }
        rig.bound(&format!("data-{number}")).await;
    }
    panic!("seventeen claims got seventeen of sixteen names");
}

/// Killed at a random moment, again and again, while claims come and go.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_moments_to_be_killed_leave_nothing() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", slow_answer(20));
    for round in 0..20_u64 {
        let sidecar = rig.sidecar(run, &[]);
        for number in 0..3 {
            rig.claim(&format!("c-{round}-{number}"), json!({})).await;
        }
        sleep(Duration::from_millis(round * 17 % 150)).await;
        rig.delete_claim(&format!("c-{round}-0")).await;
        sidecar.kill().await;
        rig.delete_claim(&format!("c-{round}-1")).await;
    }
    let _sidecar = rig.sidecar(run, &[]);
    for round in 0..20 {
        rig.bound(&format!("c-{round}-2")).await;
    }
    the_driver_has(&rig, 20).await;
    rig.journal_is_empty().await;
    eventually("as many objects as volumes", async || {
        (rig.own_volumes().await.len() == 20).then_some(())
    })
    .await;
}
