//! `stowage driver vpsa` is killed after each change that it makes on its array, before it hears of it, and after each that it
//! makes on the API server: whoever comes after it finds everything as it is, makes nothing twice, and leaves nothing behind.

#![cfg(feature = "sim")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the driver is a process that is killed"
)]

mod gate;
mod scene;
mod steps;

use std::time::{Duration, Instant};

use stowage_sim::faults;
use stowage_sim::vpsa::control::{Fault, Trouble};
use tokio::time::sleep;

use crate::vpsa_killed::gate::Gate;
use crate::vpsa_killed::scene::{PATIENCE, Scene};
use crate::vpsa_killed::steps::{Wanted, life};

const ARRAY_IS_READY: Wanted = ("vpsa", "one", |it| it["status"]["state"] == "Ready");

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_is_killed_after_any_change_is_followed_by_one_that_goes_on() {
    let mut scene = Scene::set().await;
    let kubeconfig = scene.server.kubeconfig().to_owned();
    scene.start_driver(&kubeconfig);
    scene.until(ARRAY_IS_READY).await;
    for step in life() {
        let (method, path) = step.request;
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            times: Some(1),
            trouble: Trouble::from(faults::Trouble::DoneButDelayed(600_000)),
            ..Fault::default()
        };
        scene.array.control().add_fault(fault).await.unwrap();
        scene.ask(&step.asked);
        scene.until_done(&step).await;
        // SIGKILL: it does not hear of it.
        drop(scene.driver.take());
        scene.array.control().clear_faults().await.unwrap();
        scene.start_driver(&kubeconfig);
        scene.until(step.object).await;
    }
    nothing_is_left_or_was_made_twice(&scene, 0).await;
}

/// A process that dies after its first write leaves the rest to the next: each of them must bring it forward.
#[tokio::test(flavor = "multi_thread")]
async fn drivers_that_are_killed_after_each_write_bring_everything_to_its_end() {
    let mut scene = Scene::set().await;
    scene.import = true;
    scene.make_by_hand("old").await;
    let gate = Gate::open(scene.server.kubeconfig(), scene.directory()).await;
    let mut killed = one_write_at_a_time(&mut scene, &gate, ARRAY_IS_READY).await;
    assert!(killed > 2, "a VPSA is ready after {killed} kills");
    let is_recorded: Wanted = ("externalvolume", "one-old", |it| {
        it["status"]["ID"].is_string()
    });
    assert_eq!(scene.look(is_recorded), Ok(()));
    for step in life() {
        scene.ask(&step.asked);
        killed += one_write_at_a_time(&mut scene, &gate, step.object).await;
    }
    assert!(killed > life().len(), "only {killed} kills");
    nothing_is_left_or_was_made_twice(&scene, 1).await;
}

/// Starts drivers, and kills each when it has written once and would write again, until it is so; how many were killed.
async fn one_write_at_a_time(scene: &mut Scene, gate: &Gate, wanted: Wanted) -> usize {
    let deadline = Instant::now() + PATIENCE;
    for killed in 0.. {
        gate.reset().await;
        scene.start_driver(&gate.kubeconfig);
        while !gate.is_shut().await {
            match scene.look(wanted) {
                Ok(()) => {
                    drop(scene.driver.take());
                    return killed;
                }
                Err(found) => assert!(Instant::now() < deadline, "{wanted:?}: {found:#}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
        drop(scene.driver.take());
    }
    0
}

/// What is left on the array are so many volumes that were made by hand.
async fn nothing_is_left_or_was_made_twice(scene: &Scene, by_hand: u64) {
    let left = scene.array.control().objects().await.unwrap();
    let left = (left.volumes.len(), left.snapshots.len(), left.servers.len());
    assert_eq!(left, (usize::try_from(by_hand).unwrap(), 0, 0));
    let counters = scene.array.control().counters().await.unwrap();
    // Once each, for a share and a disk; but for the server record, which was made twice because it went in between.
    for (kind, count) in [
        ("POST volumes", 2 + by_hand),
        ("POST volumes/*/expand", 1),
        ("POST volumes/*/rename", 1),
        ("POST servers", 2),
        ("POST servers/*/volumes", 3),
        ("POST consistency_groups/*/snapshots", 1),
        ("POST consistency_groups/*/clone", 1),
    ] {
        assert_eq!(counters[kind], count, "{kind}: {counters:?}");
    }
}
