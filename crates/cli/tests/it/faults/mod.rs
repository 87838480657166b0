//! What is left after everything that can die has died: the sidecar, the snapshot
//! controller, the driver, the API server, a leader.
//!
//! Each scenario lets claims come and go while one thing fails again and again, then compares cluster and driver, and
//! at last deletes everything and looks that nothing stays. Processes are real and are killed with `kill -9`; moments
//! and lives come from a seed. `cargo test` plays it small, `./x soak` whole.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what is going to happen, from a seed |
//! | `scenario` | plays the plan |
//! | `line` | the plan for a claim that grows, its snapshot and what is restored from it |
//! | `lives` | what becomes of one claim, or of one line |
//! | `scene`, `replica`, `cluster` | driver, processes, their part of a cluster, and what can happen to them |
//! | `account`, `logs` | what is wrong afterwards, and what the processes wrote about it |
//! | `going_back` | another provisioner takes over |
//! | `size` | how much of it |

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod account;
mod cluster;
mod going_back;
mod line;
mod lives;
mod logs;
mod plan;
mod replica;
mod scenario;
mod scene;
mod size;

use std::time::Duration;

use devcluster::testing::ControlPlane;
use stowage_testing::shared_control_plane;

use crate::faults::replica::Role;
use crate::faults::scenario::Scenario;
use crate::faults::scene::Fault;
use crate::faults::size::Scale;

/// One for all scenarios but the one that stops it.
async fn shared() -> &'static ControlPlane {
    tokio::task::spawn_blocking(shared_control_plane)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_sidecar_loses_nothing() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[&[Fault::Killed(Role::Sidecar)]],
        size: scale.size(1, scale.kills),
        ..scale.scenario("killed-sidecar")
    };
    let outcome = scenario.play(shared().await).await;
    assert!(
        outcome.half_made > 0,
        "no kill came at a bad moment: this run has shown nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_driver_loses_nothing() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[&[Fault::DriverKilled]],
        size: scale.size(2, scale.driver_kills),
        ..scale.scenario("killed-driver")
    };
    scenario.play(shared().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_comes_back_before_its_driver_waits_for_it() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[&[Fault::DriverKilled, Fault::Killed(Role::Sidecar)]],
        size: scale.size(4, scale.driver_kills / 2),
        ..scale.scenario("killed-both")
    };
    scenario.play(shared().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_was_away_is_served_again() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[&[Fault::ApiServerStopped]],
        size: scale.size(4, 1),
        outage: scale.outage,
        ..scale.scenario("stopped-api-server")
    };
    let plane = tokio::task::spawn_blocking(ControlPlane::start);
    let plane = plane.await.unwrap().unwrap();
    scenario.play(&plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_and_loses_nothing() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[&[Fault::LeaderKilled(Role::Sidecar)]],
        size: scale.size(4, scale.kills / 5),
        ..scale.scenario("killed-leader")
    };
    scenario.with_replicas(2).play(shared().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_claims_and_their_snapshots_survive_every_kill() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[
            &[Fault::Killed(Role::Sidecar)],
            &[Fault::Killed(Role::SnapshotController)],
            &[Fault::DriverKilled],
            &[Fault::ApiServerStopped],
            &[
                Fault::Killed(Role::Sidecar),
                Fault::Killed(Role::SnapshotController),
            ],
            // They come back before it does.
            &[
                Fault::ApiServerStopped,
                Fault::Killed(Role::Sidecar),
                Fault::Killed(Role::SnapshotController),
            ],
        ],
        size: scale.size_of_lines(1, scale.kills),
        outage: Duration::from_secs(2),
        ..scale.scenario("killed-snapshots")
    };
    let plane = tokio::task::spawn_blocking(ControlPlane::start);
    let plane = plane.await.unwrap().unwrap();
    let outcome = scenario.with_snapshots().play(&plane).await;
    assert!(
        outcome.half_taken > 0,
        "no kill came while a snapshot was taken: this run has shown nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_claims_and_their_snapshots_survive_changes_of_leaders() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[
            &[Fault::LeaderKilled(Role::Sidecar)],
            &[Fault::LeaderKilled(Role::SnapshotController)],
        ],
        size: scale.size_of_lines(4, scale.kills / 5),
        ..scale.scenario("snapshot-leaders")
    };
    let scenario = scenario.with_snapshots().with_replicas(2);
    scenario.play(shared().await).await;
}
