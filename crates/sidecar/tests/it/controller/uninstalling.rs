//! A driver that is being uninstalled gives back what it has and takes nothing new.

use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use stowage_api::driver_deployment::UNINSTALLING_ANNOTATION;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_is_being_uninstalled_deletes_volumes_and_makes_none() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(
        run,
        &["--retry-interval-start=600s", "--retry-interval-max=600s"],
    );
    rig.class(json!({})).await;
    rig.claim("before", json!({})).await;
    rig.bound("before").await;
    let drivers = Api::<CSIDriver>::all(rig.client.clone());
    let mark = json!({
        "metadata": {"name": rig.name, "annotations": {UNINSTALLING_ANNOTATION: "true"}},
        "spec": {"attachRequired": false},
    });
    create(&drivers, mark).await;
    // The mark comes by a watch of its own: until it is heard of, claims are served.
    let refused = eventually("a claim is refused", async || {
        let name = format!("new-{}", rig.driver.calls("CreateVolume"));
        rig.claim(&name, json!({})).await;
        let says = "the driver is being uninstalled and makes no new volumes";
        let refused = rig.event(&name, "ProvisioningFailed", says);
        let refused = tokio::time::timeout(std::time::Duration::from_secs(10), refused);
        refused.await.ok().map(|_| name)
    })
    .await;
    rig.delete_claim("before").await;
    rig.claim_is_gone("before").await;
    rig.called("DeleteVolume", 1).await;

    // Deployed again: who waits is served at once, not after a pause.
    let gone = DeleteParams::default();
    drivers.delete(&rig.name, &gone).await.unwrap();
    rig.bound(&refused).await;
    sidecar.stop().await.unwrap();
}
