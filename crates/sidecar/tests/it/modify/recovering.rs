//! Expansions on servers with fields for the size that is being reached.

use serde_json::json;
use stowage_memory_driver::{Mishap, Room};
use stowage_stage::eventually;
use tonic::Code;

use crate::modify::newer::Newer;

const EXPAND: &str = "ControllerExpandVolume";
const GIB: i64 = 1 << 30;

fn status(allocated: &str, stage: &str) -> serde_json::Value {
    json!({
        "allocatedResources": {"storage": allocated},
        "allocatedResourceStatuses": {"storage": stage},
    })
}

async fn volume_has(newer: &Newer, size: &str) {
    eventually(&format!("the volume has {size}"), async || {
        let volume = newer.rig.volumes().get(&newer.volume).await.unwrap();
        let capacity = volume.spec.unwrap().capacity.unwrap();
        (capacity["storage"].0 == size).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fields_say_whose_turn_it_is() {
    let newer = Newer::new(|_| {}, &[]).await;
    newer.request("2Gi").await;
    newer.has(status("2Gi", "NodeResizePending")).await;
    newer.says(&["FileSystemResizePending"]).await;
    // The node's step comes before more.
    newer.request("3Gi").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(newer.rig.driver.calls(EXPAND), 1);
    newer.finish_on_node("2Gi").await;
    newer.has(status("3Gi", "NodeResizePending")).await;
    volume_has(&newer, "3Gi").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_takes_the_stage_away() {
    let newer = Newer::new(|profile| profile.expands_on_node = false, &[]).await;
    newer.request("2Gi").await;
    newer
        .has(json!({"allocatedResources": {"storage": "2Gi"}}))
        .await;
    newer.says(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_cannot_be_is_marked_and_a_smaller_one_helps() {
    let newer = Newer::new(|profile| profile.expands_on_node = false, &[]).await;
    let room = Room {
        largest_volume: Some(4 * GIB),
        ..Room::default()
    };
    newer.rig.driver.set_room([], room);
    newer.request("9Gi").await;
    newer.has(status("9Gi", "ControllerResizeInfeasible")).await;
    newer.says(&["ControllerResizeError", "Resizing"]).await;
    // Newer servers let users take a request back.
    newer
        .set(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}))
        .await;
    newer
        .has(json!({"allocatedResources": {"storage": "3Gi"}}))
        .await;
    newer.says(&[]).await;
    volume_has(&newer, "3Gi").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_the_size_under_way_is_reached_before_a_smaller_one() {
    let mut newer = Newer::new(|profile| profile.expands_on_node = false, &[]).await;
    let unknown = Mishap::refuse(Code::Unavailable, "who knows");
    newer.rig.driver.upset(EXPAND, unknown);
    newer.request("5Gi").await;
    newer.has(status("5Gi", "ControllerResizeInProgress")).await;
    newer.rig.called(EXPAND, 1).await;
    newer
        .set(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}))
        .await;
    newer.restart().await;
    newer.rig.driver.mend();
    volume_has(&newer, "5Gi").await;
    newer.says(&[]).await;
}
