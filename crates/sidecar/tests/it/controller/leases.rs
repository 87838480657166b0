//! One replica works at a time, and nobody works beside the Go sidecars.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, create, eventually};

/// Short times, so that a test need not wait for a lease to expire.
const ELECTION: [&str; 4] = [
    "--leader-election",
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    "--leader-election-retry-period=500ms",
];

fn lease_name(driver: &str) -> String {
    driver.replace('.', "-")
}

fn leases(rig: &Rig) -> Api<Lease> {
    Api::namespaced(rig.client.clone(), &rig.namespace)
}

/// A lease that a Go sidecar holds for an hour.
async fn held_by_go(rig: &Rig, name: &str) {
    let now = Timestamp::now();
    let object = json!({"metadata": {"name": name}, "spec": {
        "holderIdentity": "go-sidecar-0",
        "leaseDurationSeconds": 3600,
        "acquireTime": format!("{now:.6}"),
        "renewTime": format!("{now:.6}"),
    }});
    create(&leases(rig), object).await;
}

async fn holder(rig: &Rig, name: &str) -> Option<String> {
    let lease = leases(rig).get_opt(name).await.unwrap()?;
    lease
        .spec?
        .holder_identity
        .filter(|holder| !holder.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_works_and_the_other_takes_over_at_once_when_it_stops() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let first = rig.sidecar(run, &ELECTION);
    let lease = lease_name(&rig.name);
    let leader = eventually("somebody leads", async || holder(&rig, &lease).await).await;
    let second = rig.sidecar(run, &ELECTION);
    rig.claim("one", json!({})).await;
    rig.bound("one").await;
    assert_eq!(holder(&rig, &lease).await.as_deref(), Some(leader.as_str()));
    let leads = |sidecar: &Running| {
        let line = format!("leader_election_master_status{{name=\"{lease}\"}} 1");
        sidecar
            .metric("leader_election_master_status")
            .contains(&line)
    };
    assert!(leads(&first));
    assert!(!leads(&second));
    first.stop().await.unwrap();
    assert_ne!(holder(&rig, &lease).await.as_deref(), Some(leader.as_str()));
    rig.claim("two", json!({})).await;
    rig.bound("two").await;
    assert_eq!(rig.driver.calls("CreateVolume"), 2);
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_followed_when_its_lease_expires_and_its_intents_are_taken_over() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let first = rig.sidecar(run, &ELECTION);
    let lease = lease_name(&rig.name);
    eventually("somebody leads", async || holder(&rig, &lease).await).await;
    let _second = rig.sidecar(run, &ELECTION);
    let hang = stowage_memory_driver::Mishap::hang().once();
    rig.driver.upset("CreateVolume", hang);
    rig.claim("data", json!({})).await;
    rig.called("CreateVolume", 1).await;
    first.kill().await;
    rig.delete_claim("data").await;
    rig.called("DeleteVolume", 1).await;
    rig.nothing_left().await;
    let all = rig.creations();
    assert_eq!(all[0], all[1]);
    rig.journal_is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_go_provisioner_holds_the_lease_nothing_is_done() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    held_by_go(&rig, &lease_name(&rig.name)).await;
    let sidecar = rig.sidecar(run, &ELECTION);
    rig.claim("data", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    leases(&rig)
        .delete(&lease_name(&rig.name), &DeleteParams::default())
        .await
        .unwrap();
    rig.bound("data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_go_attacher_holds_its_lease_volumes_are_provisioned_and_not_attached() {
    let rig = Rig::plain().await;
    let node = rig.node("n", &[]).await;
    rig.class(json!({})).await;
    let attacher = format!("external-attacher-leader-{}", lease_name(&rig.name));
    held_by_go(&rig, &attacher).await;
    let sidecar = rig.sidecar(run, &ELECTION);
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    let attachments = Api::<VolumeAttachment>::all(rig.client.clone());
    let object = json!({
        "metadata": {"name": format!("csi-{}", rig.namespace)},
        "spec": {"attacher": rig.name, "nodeName": node, "source": {"persistentVolumeName": volume}},
    });
    create(&attachments, object).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.driver.calls("ControllerPublishVolume"), 0);
    let waits = format!("leader_election_master_status{{name=\"{attacher}\"}} 0");
    assert!(
        sidecar
            .metric("leader_election_master_status")
            .contains(&waits)
    );
    leases(&rig)
        .delete(&attacher, &DeleteParams::default())
        .await
        .unwrap();
    eventually("it is attached", async || {
        (!rig.driver.publications().is_empty()).then_some(())
    })
    .await;
    sidecar.stop().await.unwrap();
    assert_eq!(holder(&rig, &attacher).await, None);
    assert_eq!(holder(&rig, &lease_name(&rig.name)).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_whose_lease_is_taken_away_ends_the_process() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let sidecar = rig.sidecar(run, &ELECTION);
    let attacher = format!("external-attacher-leader-{}", lease_name(&rig.name));
    eventually("the attacher's lease is held", async || {
        holder(&rig, &attacher).await
    })
    .await;
    let mut lease = leases(&rig).get(&attacher).await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("go-sidecar-0".to_owned());
    leases(&rig)
        .replace(&attacher, &PostParams::default(), &lease)
        .await
        .unwrap();
    let error = sidecar.ended().await.unwrap_err().to_string();
    assert!(error.contains(&attacher), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_another_process_took_ends_the_first() {
    // Without leader election two processes can be started by mistake.
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let first = rig.sidecar(run, &[]);
    rig.claim("one", json!({})).await;
    rig.bound("one").await;
    let _second = rig.sidecar(run, &[]);
    let error = first.ended().await.unwrap_err().to_string();
    assert!(error.contains("stowage-intents-"), "{error}");
    rig.claim("two", json!({})).await;
    rig.bound("two").await;
    assert_eq!(rig.driver.volumes().len(), 2);
}
