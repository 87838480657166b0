//! Journals that nobody can read, that are too long, or that go away: provisioning says so, and nothing is lost.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{from_value, json};
use stowage_memory_driver::Mishap;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, eventually};

const CONTENT: &str = "stowage.dev/intents";

fn leases(rig: &Rig) -> Api<Lease> {
    Api::namespaced(rig.client.clone(), &rig.namespace)
}

fn name(rig: &Rig) -> String {
    format!("stowage-intents-{}", rig.name)
}

async fn write(rig: &Rig, text: &str) {
    let patch = json!({"metadata": {"annotations": {CONTENT: text}}});
    let params = PatchParams::default();
    let patch = Patch::Merge(&patch);
    leases(rig)
        .patch(&name(rig), &params, &patch)
        .await
        .unwrap();
}

async fn content(rig: &Rig) -> String {
    let lease = leases(rig).get(&name(rig)).await.unwrap();
    lease.metadata.annotations.unwrap()[CONTENT].clone()
}

/// Everything but provisioning works beside this text, which stays as it is; with a good one provisioning goes on.
async fn stops_provisioning_only(text: &str, said: &str) {
    let rig = Rig::plain().await;
    rig.class(json!({"allowVolumeExpansion": true})).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.claim("old", json!({})).await;
    rig.bound("old").await;
    sidecar.stop().await.unwrap();
    let good = content(&rig).await;
    write(&rig, text).await;

    let sidecar = rig.sidecar(run, &[]);
    sidecar.says(said).await;
    rig.claim("new", json!({})).await;
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let (params, larger) = (PatchParams::default(), Patch::Merge(&larger));
    rig.claims().patch("old", &params, &larger).await.unwrap();
    rig.called("ControllerExpandVolume", 1).await;
    rig.delete_claim("old").await;
    rig.called("DeleteVolume", 1).await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    assert_eq!(content(&rig).await, text);

    write(&rig, &good).await;
    rig.bound("new").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_stops_provisioning_only() {
    stops_provisioning_only("{\"version\":2,\"deflate\":\"AAAA\"}", "it is damaged").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_from_the_future_stops_provisioning_only() {
    stops_provisioning_only("{\"version\":9,\"things\":{}}", "journal of version 9").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_much_garbage_as_a_server_takes_stops_provisioning_only() {
    stops_provisioning_only(&"[".repeat(250_000), "it is damaged").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_megabyte_is_taken_over() {
    let rig = Rig::plain().await;
    let spec = json!({"holderIdentity": "x".repeat(1 << 20)});
    let lease = json!({"metadata": {"name": name(&rig)}, "spec": spec});
    let lease: Lease = from_value(lease).unwrap();
    let params = PostParams::default();
    leases(&rig).create(&params, &lease).await.unwrap();
    rig.class(json!({})).await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_deleted_meanwhile_comes_back_with_all_that_was_in_it() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let sidecar = rig.sidecar(run, &["--timeout=60s"]);
    rig.driver.upset("CreateVolume", Mishap::hang().once());
    rig.claim("data", json!({})).await;
    rig.called("CreateVolume", 1).await;
    let params = DeleteParams::default();
    leases(&rig).delete(&name(&rig), &params).await.unwrap();
    eventually("the entry is there again", async || {
        (rig.intents().await == ["data"]).then_some(())
    })
    .await;
    sidecar.kill().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
}
