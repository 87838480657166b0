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
//! | `account` | what is wrong afterwards |
//! | `going_back` | another provisioner takes over |
//! | `size` | how much of it |

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod account;
mod cluster;
mod going_back;
mod lives;
mod plan;
mod scenario;
mod scene;
mod sidecar;
mod size;

use std::time::Duration;

use devcluster::testing::ControlPlane;

use crate::{plan::Size, scenario::Scenario, scene::Fault, size::Scale};

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
        name: "killed-sidecar",
        fault: Fault::SidecarKilled,
        replicas: 1,
        size: Size {
            claims: scale.claims,
            faults: scale.kills,
            attach: true,
        },
        lasts: Duration::ZERO,
        seed: scale.seed,
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
        name: "killed-driver",
        fault: Fault::DriverKilled,
        replicas: 1,
        size: Size {
            claims: scale.claims / 2,
            faults: scale.driver_kills,
            attach: true,
        },
        lasts: Duration::ZERO,
        seed: scale.seed,
    };
    scenario.play(shared().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_was_away_is_served_again() {
    let scale = Scale::get();
    let scenario = Scenario {
        name: "stopped-api-server",
        fault: Fault::ApiServerStopped,
        replicas: 1,
        size: Size {
            claims: scale.claims / 4,
            faults: 1,
            attach: true,
        },
        lasts: scale.outage,
        seed: scale.seed,
    };
    let plane = tokio::task::spawn_blocking(ControlPlane::start);
    let plane = plane.await.unwrap().unwrap();
    scenario.play(&plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_and_loses_nothing() {
    let scale = Scale::get();
    let scenario = Scenario {
        name: "killed-leader",
        fault: Fault::LeaderKilled,
        replicas: 2,
        size: Size {
            claims: scale.claims / 4,
            faults: (scale.kills / 5).max(1),
            attach: true,
        },
        lasts: Duration::ZERO,
        seed: scale.seed,
    };
    scenario.play(shared().await).await;
}
