//! Connections that a firewall or a load balancer forgot: nothing comes, and nobody says so.

use std::time::Duration;

use serde_json::json;
use stowage_service::client::SILENCE;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Wire, pass};

/// In one thread: time can be put forward only there.
#[tokio::test]
async fn silent_connections_are_noticed_within_45_seconds() {
    let rig = Rig::plain().await;
    let wire = Wire::to_server_of(rig.server.kubeconfig(), rig.directory.path()).await;
    let sidecar = rig.sidecar_as(run, &wire.kubeconfig, &[]);
    rig.class(json!({})).await;
    rig.claim("before", json!({})).await;
    rig.bound("before").await;
    wire.fall_silent();
    rig.claim("after", json!({})).await;
    assert!(SILENCE <= Duration::from_secs(45));
    pass(SILENCE).await;
    // TCP itself says nothing for a quarter of an hour.
    rig.bound("after").await;
    assert!(sidecar.runs().await);
}
