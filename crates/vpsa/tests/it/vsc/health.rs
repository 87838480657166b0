//! Arrays of which a part has failed, and by which rule those that are well get volumes.

use std::time::Duration;

use serde_json::json;
use stowage_api::vpsa::VscStorageClass;
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::state::{Drive, Object, Pool, RaidGroup};
use stowage_vpsa::vsc::allocator::Allocator;

use crate::vsc::arrays::make_volume_of;
use crate::vsc::rig::{Rig, array};
use crate::vsc::volumes::ready;

/// The first drive, pool and RAID group of an array, with this status.
async fn parts(array: &Array, status: &str) -> [(String, Object); 3] {
    let objects = array.control().objects().await.unwrap();
    let status = status.to_owned();
    let drive = Drive {
        status: status.clone(),
        ..objects.drives.values().next().unwrap().clone()
    };
    let pool = Pool {
        status: status.clone(),
        ..objects.pools.values().next().unwrap().clone()
    };
    let group = RaidGroup {
        status,
        ..objects.raid_groups.values().next().unwrap().clone()
    };
    [
        (format!("drive {} is", drive.id), Object::Drive(drive)),
        (format!("pool {} is", pool.display_name), Object::Pool(pool)),
        (
            format!("RAID group {} is", group.id),
            Object::RaidGroup(group),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_with_a_failed_part_names_it_gets_no_volume_and_comes_back_when_it_is_replaced() {
    let rig = Rig::start().await;
    let ((sick, _sick), (well, _well)) = (array(|_| {}).await, array(|_| {}).await);
    rig.class("gold", json!({})).await;
    for (name, array) in [("sick", &sick), ("well", &well)] {
        rig.vpsa(name, "gold", array).await;
        rig.vpsa_is(name, "Ready", "Ready").await;
    }
    let (failed, normal) = (parts(&sick, "Failed").await, parts(&sick, "Normal").await);
    for (number, ((part, failed), (_, normal))) in failed.into_iter().zip(normal).enumerate() {
        sick.control().put(failed).await.unwrap();
        let told = rig.vpsa_is("sick", "Failed", "Unhealthy").await;
        let message = &told["status"]["conditions"][0]["message"];
        assert_eq!(*message, format!("{part} Failed"));
        let is_sick = |it: &serde_json::Value| {
            let message = it["status"]["conditions"][0]["message"].as_str();
            message.is_some_and(|it| it.starts_with("sick is Failed since 20"))
        };
        rig.until::<VscStorageClass>("gold", is_sick).await;
        let name = format!("meanwhile-{number}");
        rig.volume(&name, "10Gi", json!({})).await;
        assert_eq!(ready(&rig, &name).await["status"]["VPSAID"], "well");
        sick.control().put(normal).await.unwrap();
        rig.vpsa_is("sick", "Ready", "Ready").await;
    }
    let told = rig.warning("sick", "Failed").await;
    assert!(told.ends_with(" is Failed"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_allocator_even_prefers_the_fewest_volumes_to_the_most_room() {
    let rig = Rig::with(|rig| rig.allocator = Allocator::Even).await;
    let (roomy, _roomy) = array(|_| {}).await;
    let (small, _small) = array(|options| options.pool = vec![("p".to_owned(), 100)]).await;
    for name in ["u", "v"] {
        make_volume_of(&roomy, name, 1).await;
    }
    make_volume_of(&small, "w", 50).await;
    rig.class("gold", json!({})).await;
    for (name, array) in [("roomy", &roomy), ("small", &small)] {
        rig.vpsa(name, "gold", array).await;
        rig.vpsa_is(name, "Ready", "Ready").await;
    }
    rig.volume("even", "10Gi", json!({})).await;
    assert_eq!(ready(&rig, "even").await["status"]["VPSAID"], "small");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_allocator_linear_fills_the_array_that_was_added_first() {
    let rig = Rig::with(|rig| rig.allocator = Allocator::Linear).await;
    let (first, _first) = array(|options| options.pool = vec![("p".to_owned(), 200)]).await;
    let (second, _second) = array(|_| {}).await;
    make_volume_of(&first, "theirs", 50).await;
    rig.class("gold", json!({})).await;
    // Not in the order of their names, and objects tell their age in seconds.
    for (name, array) in [("z-first", &first), ("a-second", &second)] {
        rig.vpsa(name, "gold", array).await;
        rig.vpsa_is(name, "Ready", "Ready").await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    for (name, size, place) in [
        ("one", "40Gi", "z-first"),
        // What was promised is counted twice until the array has told again: neither this nor the next depends on that.
        ("two", "120Gi", "a-second"),
        ("three", "10Gi", "z-first"),
    ] {
        rig.volume(name, size, json!({})).await;
        assert_eq!(ready(&rig, name).await["status"]["VPSAID"], place, "{name}");
    }
}
