//! The rules that upstream's manifests grant are enough, and a missing one is named.

use devcluster::testing::Rule;
use serde_json::json;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, until};

const CORE: &[&str] = &[""];
const STORAGE: &[&str] = &["storage.k8s.io"];
const SNAPSHOTS: &[&str] = &["snapshot.storage.k8s.io"];
const READ: &[&str] = &["get", "list", "watch"];

fn rule(
    groups: &'static [&'static str],
    resource: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule<'static> {
    Rule {
        groups,
        resources: resource,
        verbs,
    }
}

/// What upstream's provisioner has in its manifests.
pub fn upstream() -> Vec<Rule<'static>> {
    vec![
        rule(
            CORE,
            &["persistentvolumes"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            CORE,
            &["persistentvolumeclaims"],
            &["get", "list", "watch", "update"],
        ),
        rule(STORAGE, &["storageclasses"], READ),
        rule(STORAGE, &["csinodes"], READ),
        rule(CORE, &["nodes"], READ),
        rule(STORAGE, &["volumeattachments"], READ),
        rule(
            CORE,
            &["events"],
            &["list", "watch", "create", "update", "patch"],
        ),
        rule(
            SNAPSHOTS,
            &["volumesnapshots"],
            &["get", "list", "watch", "update"],
        ),
        rule(SNAPSHOTS, &["volumesnapshotcontents"], &["get", "list"]),
        rule(CORE, &["secrets"], &["get"]),
        rule(
            &["coordination.k8s.io"],
            &["leases"],
            &["get", "watch", "list", "delete", "update", "create"],
        ),
    ]
}

/// All of it but one verb on one resource.
pub fn without(resource: &str, verb: &str) -> Vec<Rule<'static>> {
    let mut rules = upstream();
    let found = rules.iter_mut().find(|rule| rule.resources == [resource]);
    let found = found.expect("such a rule");
    let left: Vec<&'static str> = found
        .verbs
        .iter()
        .copied()
        .filter(|one| *one != verb)
        .collect();
    assert!(left.len() < found.verbs.len(), "no such verb");
    found.verbs = left.leak();
    if found.verbs.is_empty() {
        rules.retain(|rule| rule.resources != [resource]);
    }
    rules
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_rules_are_enough_for_a_whole_life() {
    let rig = Rig::new(|profile| profile).await;
    rig.node("n", &[("topology.stowage.test/zone", "a")]).await;
    let user = rig.user(upstream()).await;
    let sidecar = rig.sidecar_as(run, &user, &["--leader-election"]);
    rig.class(json!({"parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login",
        "csi.storage.k8s.io/provisioner-secret-namespace": rig.namespace,
    }}))
    .await;
    rig.secret("login", "user", "admin").await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    rig.event("data", "ProvisioningSucceeded", "").await;
    let source = json!({"kind": "PersistentVolumeClaim", "name": "data"});
    rig.claim("copy", json!({"spec": {"dataSource": source}}))
        .await;
    rig.bound("copy").await;
    rig.delete_claim("data").await;
    rig.delete_claim("copy").await;
    rig.nothing_left().await;
    sidecar.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_may_not_be_written_is_made_once_and_written_when_it_may() {
    let rig = Rig::plain().await;
    let user = rig.user(without("persistentvolumes", "create")).await;
    let _sidecar = rig.sidecar_as(run, &user, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let says = "cannot create resource \"persistentvolumes\"";
    let message = rig.event("data", "ProvisioningFailed", says).await;
    assert!(
        message.ends_with("add this rule to the role of this process"),
        "{message}"
    );
    assert_eq!(rig.driver.volumes().len(), 1);
    rig.user(upstream()).await;
    rig.bound("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_may_not_be_read_is_named_with_the_rule() {
    let rig = Rig::plain().await;
    let user = rig.user(without("secrets", "get")).await;
    let _sidecar = rig.sidecar_as(run, &user, &[]);
    rig.class(json!({"parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login",
        "csi.storage.k8s.io/provisioner-secret-namespace": rig.namespace,
    }}))
    .await;
    rig.secret("login", "user", "admin").await;
    rig.claim("data", json!({})).await;
    let says = format!(
        "may not read secret `{}/login`: add `get` on `secrets`",
        rig.namespace
    );
    rig.event("data", "ProvisioningFailed", &says).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_may_not_be_deleted_says_so() {
    let rig = Rig::plain().await;
    let user = rig.user(without("persistentvolumes", "delete")).await;
    let _sidecar = rig.sidecar_as(run, &user, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    rig.delete_claim("data").await;
    let says = "the volume is deleted, its object is not: ";
    let message = rig.event(&volume, "VolumeFailedDelete", says).await;
    assert!(
        message.contains("cannot delete resource \"persistentvolumes\""),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_listed_is_named_on_readyz_until_it_may() {
    for kind in ["csinodes", "storageclasses", "persistentvolumeclaims"] {
        // Tests beside this one install kinds of snapshots, which these rules do not have.
        let rig = Rig::new(|mut profile| {
            profile.topology = false;
            profile.without(Can::CreateDeleteSnapshot)
        })
        .await;
        let user = rig.user(without(kind, "list")).await;
        let sidecar = rig.sidecar_as(run, &user, &[]);
        rig.class(json!({})).await;
        rig.claim("data", json!({})).await;
        sidecar
            .says(&format!(
                "the service account may not list {kind}: add `list` on `{kind}`"
            ))
            .await;
        rig.user(upstream()).await;
        rig.bound("data").await;
        // Not every kind is needed for a claim: some are asked for again a little later.
        until("ready", || sidecar.health.report().is_ready()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_journal_nothing_is_begun() {
    let rig = Rig::plain().await;
    let user = rig.user(without("leases", "get")).await;
    let sidecar = rig.sidecar_as(run, &user, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    sidecar
        .says("the intent journal needs `get` on `leases`")
        .await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    rig.user(upstream()).await;
    rig.bound("data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_may_not_be_written_holds_claims_up_and_says_so() {
    let rig = Rig::plain().await;
    let user = rig.user(without("leases", "update")).await;
    let _sidecar = rig.sidecar_as(run, &user, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    rig.event(
        "data",
        "ProvisioningFailed",
        "are `create` and `update` on `leases` allowed?",
    )
    .await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    rig.user(upstream()).await;
    rig.bound("data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_may_not_be_written_hold_up_nothing() {
    let rig = Rig::plain().await;
    let rules = upstream()
        .into_iter()
        .filter(|rule| rule.resources != ["events"]);
    let user = rig.user(rules.collect()).await;
    let _sidecar = rig.sidecar_as(run, &user, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
}
