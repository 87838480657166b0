//! What is left after everything that can die has died: the sidecar, the driver, the API server, a leader.
//!
//! Each scenario lets claims come and go while one thing fails again and again, then compares cluster and driver, and
//! at last deletes everything and looks that nothing stays. Processes are real and are killed with `kill -9`; moments
//! and lives come from a seed. `cargo test` plays it small, `./x soak` whole.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what is going to happen, from a seed |
//! | `scenario` | plays the plan |
//! | `lives` | what becomes of one claim |
//! | `scene`, `sidecar`, `cluster` | driver, sidecars, their part of a cluster, and what can happen to them |
//! | `account`, `logs` | what is wrong afterwards, and what the processes wrote about it |
//! | `going_back` | another provisioner takes over |
//! | `size` | how much of it |

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod account;
mod cluster;
mod going_back;
mod lives;
mod logs;
mod plan;
mod scenario;
mod scene;
mod sidecar;
mod size;

use devcluster::testing::ControlPlane;

use crate::{scenario::Scenario, scene::Fault, size::Scale};

/// One for all scenarios but the one that stops it.
async fn shared() -> &'static ControlPlane {
    tokio::task::spawn_blocking(ControlPlane::shared)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_sidecar_loses_nothing() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[Fault::SidecarKilled],
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
        faults: &[Fault::DriverKilled],
        size: scale.size(2, scale.driver_kills),
        ..scale.scenario("killed-driver")
    };
    scenario.play(shared().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_comes_back_before_its_driver_waits_for_it() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[Fault::DriverKilled, Fault::SidecarKilled],
        size: scale.size(4, scale.driver_kills / 2),
        ..scale.scenario("killed-both")
    };
    scenario.play(shared().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_was_away_is_served_again() {
    let scale = Scale::get();
    let scenario = Scenario {
        faults: &[Fault::ApiServerStopped],
        size: scale.size(4, 1),
        lasts: scale.outage,
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
        faults: &[Fault::LeaderKilled],
        replicas: 2,
        size: scale.size(4, scale.kills / 5),
        ..scale.scenario("killed-leader")
    };
    scenario.play(shared().await).await;
}
