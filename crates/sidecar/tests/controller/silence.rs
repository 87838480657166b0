//! Connections that a firewall or a load balancer forgot: nothing comes, and nobody says so.

use std::time::{Duration, Instant};

use serde_json::json;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Wire};
use tokio::time::sleep;

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_noticed_within_45_seconds() {
    let rig = Rig::plain().await;
    let wire = Wire::to_server_of(rig.server.kubeconfig(), rig.directory.path()).await;
    let sidecar = rig.sidecar_as(run, &wire.kubeconfig, &[]);
    rig.class(json!({})).await;
    rig.claim("before", json!({})).await;
    rig.bound("before").await;
    wire.fall_silent();
    let since = Instant::now();
    rig.claim("after", json!({})).await;
    let claims = rig.claims();
    loop {
        let claim = claims.get("after").await.unwrap();
        if claim.spec.is_some_and(|spec| spec.volume_name.is_some()) {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(45), "nobody noticed");
        sleep(Duration::from_millis(100)).await;
    }
    assert!(sidecar.runs().await);
}
