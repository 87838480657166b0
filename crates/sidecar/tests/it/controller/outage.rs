//! The API server goes away for a while.

use std::time::Duration;

use devcluster::testing::{ControlPlane, Rule};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stowage_memory_driver::{Fault, Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::Rig;

use crate::controller::rbac::upstream;

/// A driver on a control plane of its own.
async fn rig_of_its_own() -> Rig {
    let start = || -> &'static ControlPlane { Box::leak(Box::new(ControlPlane::start().unwrap())) };
    let plane = tokio::task::spawn_blocking(start).await.unwrap();
    Rig::on(plane, |mut profile| {
        profile.topology = false;
        profile
    })
    .await
}

/// The controller manager ends when it loses its lease, so it is started again too.
async fn with_outage(plane: &'static ControlPlane, outage: Duration) {
    let stop = move || plane.stop().unwrap();
    tokio::task::spawn_blocking(stop).await.unwrap();
    tokio::time::sleep(outage).await;
    let start = move || {
        plane.start_again().unwrap();
        plane.stop_controllers().unwrap();
        plane.start_controllers().unwrap();
    };
    tokio::task::spawn_blocking(start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_where_it_stopped_and_nothing_is_made_twice() {
    let rig = rig_of_its_own().await;
    let sidecar = rig.sidecar(run, &["--retry-interval-max=2s"]);
    rig.class(json!({})).await;
    rig.claim("before", json!({})).await;
    rig.bound("before").await;
    // The volume is made while nobody can write its object.
    let slow = Mishap::new(Moment::After, Trouble::Delay(Duration::from_secs(2)));
    rig.driver.upset("CreateVolume", slow.once());
    rig.claim("during", json!({})).await;
    rig.called("CreateVolume", 2).await;
    with_outage(rig.plane(), Duration::from_secs(5)).await;
    rig.bound("during").await;
    rig.claim("after", json!({})).await;
    rig.bound("after").await;
    assert_eq!(rig.driver.volumes().len(), 3);
    for claim in ["before", "during", "after"] {
        rig.delete_claim(claim).await;
    }
    rig.nothing_left().await;
    rig.journal_is_empty().await;
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_can_be_stopped_while_the_server_is_away() {
    let rig = rig_of_its_own().await;
    let sidecar = rig.sidecar(run, &["--timeout=3s"]);
    rig.class(json!({})).await;
    rig.driver.upset("CreateVolume", Mishap::hang().once());
    rig.claim("data", json!({})).await;
    rig.called("CreateVolume", 1).await;
    let plane = rig.plane();
    tokio::task::spawn_blocking(move || plane.stop().unwrap())
        .await
        .unwrap();
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_behind_deletes_nothing_that_is_to_be_kept() {
    let rig = rig_of_its_own().await;
    let user = rig.user(upstream()).await;
    let sidecar = rig.sidecar_as(run, &user, &["--retry-interval-max=1s"]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    rig.driver.set(Fault::VolumeCannotBeDeleted);
    rig.delete_claim("data").await;
    rig.event(&volume, "VolumeFailedDelete", "it does not go")
        .await;
    // From the restart on nobody tells the sidecar of changes; it knows a volume that is to be deleted.
    rig.user(blind()).await;
    with_outage(rig.plane(), Duration::ZERO).await;
    sidecar.says("may not watch persistentvolumes").await;
    let keep = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    let params = PatchParams::default();
    rig.volumes()
        .patch(&volume, &params, &Patch::Merge(&keep))
        .await
        .unwrap();
    rig.driver.mend();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.driver.volumes().len(), 1);
}

/// May read volumes one by one only.
fn blind() -> Vec<Rule<'static>> {
    let mut rules = upstream();
    rules[0].verbs = &["get", "create", "patch", "delete"];
    assert_eq!(rules[0].resources, ["persistentvolumes"]);
    rules
}
