//! Room on arrays: that of the pool that a class uses, less what was chosen since the array was last asked; and an array that
//! says no, or nothing, is given up for another.

use std::time::Duration;

use serde_json::{Value, json};
use stowage_api::vpsa::{Volume, Vpsa};
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::state::{Object, Pool};
use stowage_vpsa::vsc::allocator::Allocator;

use crate::vsc::arrays::make_volume_of;
use crate::vsc::rig::{Rig, array};
use crate::vsc::volumes::{on_array, ready};

/// Longer than any test: what is known of arrays is what was known at the start.
const NEVER: Duration = Duration::from_secs(3600);

async fn set_pool(array: &Array, name: &str, mode: &str) {
    let objects = array.control().objects().await.unwrap();
    let mut pools = objects.pools.values();
    let pool = pools.find(|it| it.display_name == name).unwrap();
    let pool = Pool {
        mode: mode.to_owned(),
        ..pool.clone()
    };
    array.control().put(Object::Pool(pool)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pool_of_the_class_says_how_much_room_an_array_has() {
    let rig = Rig::start().await;
    let (array, _data) = array(|options| {
        options.pool = vec![("fast".to_owned(), 500), ("slow".to_owned(), 100)];
    })
    .await;
    set_pool(&array, "fast", "protected").await;
    rig.class("gold", json!({"poolName": "slow"})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    // The other pool is as good as full.
    rig.volume("v", "20Gi", json!({})).await;
    let made = ready(&rig, "v").await;
    assert_eq!(made["status"]["poolID"], "pool-00010002");
    let capacity = json!({"total": "100Gi", "available": "80Gi", "mode": "normal"});
    rig.until::<Vpsa>("one", |it| it["status"]["capacity"] == capacity)
        .await;
    // And now it has all the room, which is of no use.
    set_pool(&array, "fast", "normal").await;
    rig.volume("large", "90Gi", json!({})).await;
    let message = rig.event("large", "NoArray").await;
    assert!(
        message.contains("one: it has 80 GB available and 90 GB are needed"),
        "{message}"
    );
}

/// A rig that has asked two arrays once and never does so again by itself.
async fn two_arrays(sizes: [u64; 2]) -> (Rig, [(Array, tempfile::TempDir); 2]) {
    let rig = Rig::with(|rig| {
        rig.monitor_interval = NEVER;
        rig.allocator = Allocator::MostAvailableCapacity;
        rig.import = false;
    })
    .await;
    let [a, b] =
        sizes.map(|size| array(move |options| options.pool = vec![("p".to_owned(), size)]));
    let arrays = [a.await, b.await];
    rig.class("gold", json!({})).await;
    for (name, (array, _)) in ["a", "b"].into_iter().zip(&arrays) {
        rig.vpsa(name, "gold", array).await;
        rig.vpsa_is(name, "Ready", "Ready").await;
    }
    // What the first looks wrote may have them looked at once more: before one that came later.
    rig.class("silver", json!({})).await;
    let (later, _later) = array(|_| {}).await;
    rig.vpsa("later", "silver", &later).await;
    rig.vpsa_is("later", "Ready", "Ready").await;
    rig.delete::<Vpsa>("later").await;
    rig.until::<Vpsa>("later", Value::is_null).await;
    (rig, arrays)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_chosen_since_an_array_was_asked_counts_as_used() {
    let (mut rig, [(a, _a), (b, _b)]) = two_arrays([100, 100]).await;
    // All at once.
    rig.stop_plane().await;
    for name in ["u", "v"] {
        rig.volume(name, "60Gi", json!({})).await;
    }
    rig.start_plane();
    for name in ["u", "v"] {
        ready(&rig, name).await;
    }
    for array in [&a, &b] {
        assert_eq!(on_array(array).await.len(), 1);
        let counters = array.control().counters().await.unwrap();
        assert_eq!(counters["POST volumes"], 1, "nobody was refused");
    }
    rig.volume("w", "60Gi", json!({})).await;
    let message = rig.event("w", "NoArray").await;
    for array in ["a", "b"] {
        let says = format!("{array}: it has 40 GB available and 60 GB are needed");
        assert!(message.contains(&says), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_says_that_it_is_full_is_given_up_for_another() {
    let (rig, [(a, _a), (b, _b)]) = two_arrays([1000, 500]).await;
    // Behind the back of the control plane.
    make_volume_of(&a, "theirs", 950).await;
    rig.volume("v", "100Gi", json!({})).await;
    assert_eq!(ready(&rig, "v").await["status"]["VPSAID"], "b");
    assert_eq!(on_array(&a).await, [("theirs".to_owned(), 950)]);
    assert_eq!(on_array(&b).await, [("v".to_owned(), 100)]);
    let message = rig.event("v", "NoRoom").await;
    assert!(
        message.contains("VPSA `a` does not take it") && message.contains("not enough free"),
        "{message}"
    );
    // It is asked again at once, so that the next volume knows.
    rig.until::<Vpsa>("a", |it| it["status"]["capacity"]["available"] == "50Gi")
        .await;
    rig.delete::<Volume>("v").await;
    rig.until::<Volume>("v", Value::is_null).await;
    assert_eq!(on_array(&b).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_that_are_all_full_say_so_and_the_volume_is_made_once_there_is_room() {
    let (rig, [(a, _a), (b, _b)]) = two_arrays([500, 500]).await;
    for array in [&a, &b] {
        make_volume_of(array, "theirs", 450).await;
    }
    rig.volume("v", "100Gi", json!({})).await;
    let message = rig.event("v", "NoArray").await;
    assert!(
        message.contains("a: it") && message.contains("b: it"),
        "{message}"
    );
    let objects = b.control().objects().await.unwrap();
    let pool = objects.pools.values().next().unwrap().clone();
    let capacity = 5000;
    let larger = Object::Pool(Pool { capacity, ..pool });
    b.control().put(larger).await.unwrap();
    // Anything that has the array looked at.
    rig.patch::<Vpsa>("b", json!({"spec": {"description": "larger"}}))
        .await;
    assert_eq!(ready(&rig, "v").await["status"]["VPSAID"], "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_does_not_answer_is_given_up_for_another_before_anybody_noticed() {
    let (rig, [(a, _a), (b, _b)]) = two_arrays([1000, 500]).await;
    a.control().stop_endpoint(0).await.unwrap();
    rig.volume("v", "100Gi", json!({})).await;
    assert_eq!(ready(&rig, "v").await["status"]["VPSAID"], "b");
    assert_eq!(on_array(&b).await, [("v".to_owned(), 100)]);
    let message = rig.event("v", "ArrayFailed").await;
    assert!(
        message.contains("VPSA `a` does not take it") && message.contains("does not answer"),
        "{message}"
    );
    // It is looked at for it.
    rig.vpsa_is("a", "Unreachable", "NoAnswer").await;
    rig.delete::<Volume>("v").await;
    rig.until::<Volume>("v", Value::is_null).await;
}
