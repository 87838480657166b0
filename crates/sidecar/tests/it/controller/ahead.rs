//! Intents are written before their turn with the driver comes, and cost nothing if it never does.

use std::time::Duration;

use serde_json::json;
use stowage_memory_driver::{Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, eventually};

/// One worker is busy with the claim `first`, and the intents of the `others` are written down.
async fn one_is_made_and_others_wait(others: &[&str]) -> (Rig, Running) {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--worker-threads=1"]);
    rig.class(json!({})).await;
    let slow = Trouble::Delay(Duration::from_secs(3));
    rig.driver
        .upset("CreateVolume", Mishap::new(Moment::After, slow));
    rig.claim("first", json!({})).await;
    rig.called("CreateVolume", 1).await;
    for name in others {
        rig.claim(name, json!({})).await;
    }
    eventually("all intents are written", async || {
        (rig.intents().await.len() == 1 + others.len()).then_some(())
    })
    .await;
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    (rig, sidecar)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_whose_turn_has_not_come_is_dropped_at_the_end() {
    let (rig, sidecar) = one_is_made_and_others_wait(&["second", "third"]).await;
    sidecar.stop().await.unwrap();
    assert!(rig.intents().await.is_empty());
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    assert_eq!(rig.own_volumes().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_goes_before_its_turn_costs_no_call() {
    let (rig, _sidecar) = one_is_made_and_others_wait(&["second"]).await;
    rig.delete_claim("second").await;
    rig.claim_is_gone("second").await;
    rig.bound("first").await;
    rig.journal_is_empty().await;
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
}
