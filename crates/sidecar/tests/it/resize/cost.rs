//! What it costs, and which rights it takes.

use std::time::Duration;

use devcluster::testing::Rule;
use kube::api::ListParams;
use serde_json::json;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, eventually};
use tokio::time::sleep;

use crate::resize::gate::Gate;
use crate::resize::scene::{Scene, VOLUME};

const READ: &[&str] = &["get", "list", "watch"];

/// What upstream's manifests grant to provisioner, attacher and resizer.
fn upstream() -> Vec<Rule<'static>> {
    let rule = |groups, resources, verbs| Rule {
        groups,
        resources,
        verbs,
    };
    let (core, storage): (&[&str], &[&str]) = (&[""], &["storage.k8s.io"]);
    vec![
        rule(
            core,
            &["persistentvolumes"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            core,
            &["persistentvolumeclaims"],
            &["get", "list", "watch", "update"],
        ),
        rule(core, &["persistentvolumeclaims/status"], &["patch"]),
        rule(core, &["pods"], READ),
        rule(
            core,
            &["events"],
            &["list", "watch", "create", "update", "patch"],
        ),
        rule(storage, &["storageclasses", "csinodes"], READ),
        rule(
            storage,
            &["volumeattachments"],
            &["get", "list", "watch", "patch"],
        ),
        rule(storage, &["volumeattachments/status"], &["patch"]),
        rule(
            &["coordination.k8s.io"],
            &["leases"],
            &["get", "watch", "list", "delete", "update", "create"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_upstreams_sidecars_suffice() {
    let rig = Rig::plain().await;
    rig.class(json!({"allowVolumeExpansion": true})).await;
    let user = rig.user(upstream()).await;
    let sidecar = rig.sidecar_as(run, &user, &[]);
    let gate = Gate::open(&user, rig.directory.path()).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    let scene = Scene {
        rig,
        gate,
        sidecar: Some(sidecar),
        volume,
    };
    scene.request("2Gi").await;
    scene.says(&["FileSystemResizePending"]).await;
    scene.node_follows("2Gi").await;
    scene.tidied().await;
    let text = "Require file system resize of volume on node";
    scene
        .rig
        .event("data", "FileSystemResizeRequired", text)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_among_many_quiet_claims_writes_nothing_and_calls_nobody() {
    const COUNT: usize = 200;
    let rig = Rig::plain().await;
    rig.class(json!({"allowVolumeExpansion": true})).await;
    let sidecar = rig.sidecar(run, &[]);
    for index in 0..COUNT {
        rig.claim(&format!("c{index}"), json!({})).await;
    }
    eventually("all claims are bound", async || {
        let all = rig.claims().list(&ListParams::default()).await.unwrap();
        let bound = all.iter().filter(|claim| {
            let status = claim.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Bound")
        });
        (bound.count() == COUNT).then_some(())
    })
    .await;
    sidecar.stop().await.unwrap();

    let before = rig.driver.all_calls();
    let gate = Gate::open(rig.plane().kubeconfig(), rig.directory.path()).await;
    let sidecar = rig.sidecar_as(run, gate.kubeconfig(), &[]);
    eventually("the sidecar is ready", async || {
        sidecar.health.report().is_ready().then_some(())
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    assert!(gate.writes().is_empty(), "{:?}", gate.writes());
    for rpc in [
        "CreateVolume",
        "ControllerExpandVolume",
        "ControllerModifyVolume",
    ] {
        let calls = before.get(rpc).copied().unwrap_or(0);
        assert_eq!(rig.driver.calls(rpc), calls, "{rpc}");
    }
    assert!(!gate.lists().contains(&"pods".to_owned()));
    assert!(!gate.lists().is_empty() && !gate.writes().contains(&VOLUME.to_owned()));
}
