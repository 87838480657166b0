//! Processes that die at any moment.

use std::time::Duration;

use stowage_sidecar::controller::run;

use crate::scene::{Scene, controller};

const MANY: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_survive_kills_of_both_processes_and_none_is_taken_twice() {
    let mut scene = Scene::quiet().await;
    scene.many_snapshots(MANY).await;
    // Moments from before the first write until after the last.
    for round in 0..6 {
        let controller = controller(&scene.rig, &[]);
        let sidecar = scene.rig.sidecar(run, &[]);
        tokio::time::sleep(Duration::from_millis(100 + 60 * round)).await;
        controller.kill().await;
        sidecar.kill().await;
    }
    scene.start();
    for number in 0..MANY {
        scene.ready(&format!("s{number}")).await;
    }
    assert_eq!(scene.rig.driver.snapshots().len(), MANY);

    for number in 0..MANY {
        scene.delete(&format!("s{number}")).await;
    }
    for round in 0..4 {
        if let (Some(controller), Some(sidecar)) = (scene.controller.take(), scene.sidecar.take()) {
            controller.kill().await;
            sidecar.kill().await;
        }
        scene.start();
        tokio::time::sleep(Duration::from_millis(100 + 60 * round)).await;
    }
    scene.nothing_left().await;
    crate::taking::released(&scene, "data").await;
    scene.end().await;
}
