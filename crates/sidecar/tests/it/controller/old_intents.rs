//! An intent that lay around is no reason to delete a volume.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use stowage_sidecar::controller::run;
use stowage_sidecar::journal::Place;
use stowage_sidecar::journal::listing::list;
use stowage_stage::{Rig, create, eventually};

use crate::controller::crash::{killed_before_the_object, object, the_driver_has};

const CONTENT: &str = "stowage.dev/intents";
const TWO_DAYS: u64 = 2 * 86_400;

fn lease_name(rig: &Rig) -> String {
    format!("stowage-intents-{}", rig.name)
}

/// Changes the journal behind everybody's back; returns the volume of its one entry.
async fn tamper(rig: &Rig, change: impl FnOnce(&mut Value)) -> String {
    let api = Api::<Lease>::namespaced(rig.client.clone(), &rig.namespace);
    let mut lease = api.get(&lease_name(rig)).await.unwrap();
    let annotations = lease.metadata.annotations.as_mut().unwrap();
    let mut journal: Value = serde_json::from_str(&annotations[CONTENT]).unwrap();
    change(&mut journal);
    let volume = journal["entries"][0]["v"].as_str().unwrap().to_owned();
    annotations.insert(CONTENT.to_owned(), journal.to_string());
    let params = PostParams::default();
    api.replace(&lease_name(rig), &params, &lease)
        .await
        .unwrap();
    volume
}

fn age(journal: &mut Value) {
    let written = &mut journal["entries"][0]["w"];
    *written = json!(written.as_u64().unwrap() - TWO_DAYS);
}

fn of_another_cluster(journal: &mut Value) {
    journal["entries"][0]["o"] = json!("8f14e45f-ceea-467a-9575-2d1bca0e1a50");
}

fn as_version_1(journal: &mut Value) {
    journal["version"] = json!(1);
    let entry = journal["entries"][0].as_object_mut().unwrap();
    entry.remove("w");
    entry.remove("o");
}

async fn without_its_claim() -> Rig {
    let rig = killed_before_the_object().await;
    rig.delete_claim("data").await;
    rig.claim_is_gone("data").await;
    rig
}

/// What `--list-intents` prints, without its heading.
async fn listed(rig: &Rig) -> Vec<String> {
    let namespaces = Api::<Namespace>::all(rig.client.clone());
    let system = namespaces.get("kube-system").await.unwrap();
    let place = Place {
        namespace: &rig.namespace,
        name: &lease_name(rig),
        identity: "a person",
        driver: "",
        node: None,
    };
    let day = Duration::from_secs(86_400);
    let text = list(
        rig.client.clone(),
        place,
        system.metadata.uid.as_deref(),
        day,
    )
    .await;
    let text = text.unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

async fn is_held(change: fn(&mut Value), why: &str) {
    let rig = without_its_claim().await;
    let [line] = &listed(&rig).await[..] else {
        panic!("not one intent");
    };
    assert!(line.ends_with("the volume is deleted"), "{line}");
    let volume = tamper(&rig, change).await;
    let line = &listed(&rig).await[0];
    for part in [&volume, &format!("{}/data", rig.namespace), &rig.name, why] {
        assert!(line.contains(part), "{line}");
    }
    assert!(line.contains("waits for --force-intent"), "{line}");
    let sidecar = rig.sidecar(run, &[]);
    let said = rig.event(&lease_name(&rig), "IntentHeld", why).await;
    assert!(said.contains(&format!("--force-intent={volume}")), "{said}");
    sidecar.shows(&["stowage_sidecar_intents_held 1"]).await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    assert_eq!(rig.intents().await, ["data"]);
    sidecar.stop().await.unwrap();

    // Whoever wants to go back is told, and nothing is waited for.
    let resolving = rig.sidecar(run, &["--resolve-intents-and-exit"]);
    let error = resolving.ended().await.unwrap_err().to_string();
    assert!(error.contains("--force-intent"), "{error}");
    assert_eq!(rig.driver.volumes().len(), 1);

    // A person decided.
    let force = format!("--force-intent=other,{volume}");
    let resolving = rig.sidecar(run, &["--resolve-intents-and-exit", &force]);
    resolving.ended().await.unwrap();
    assert!(rig.driver.volumes().is_empty());
    assert!(rig.intents().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_intent_whose_claim_is_gone_waits_for_a_person() {
    is_held(age, "written 2d ago, and --intent-age-limit is 24h").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_of_another_cluster_waits_for_a_person() {
    is_held(of_another_cluster, "in another cluster").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_of_the_first_version_waits_for_a_person() {
    is_held(as_version_1, "does not say when").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_can_be_set() {
    let rig = without_its_claim().await;
    tamper(&rig, age).await;
    let _sidecar = rig.sidecar(run, &["--intent-age-limit=72h"]);
    the_driver_has(&rig, 0).await;
    rig.journal_is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_still_waits_gets_its_volume_however_old_the_intent_is() {
    for change in [age, as_version_1] {
        let rig = killed_before_the_object().await;
        tamper(&rig, change).await;
        let _sidecar = rig.sidecar(run, &[]);
        rig.bound("data").await;
        assert_eq!(rig.driver.volumes().len(), 1);
        rig.journal_is_empty().await;
    }
}

/// The volume was kept, and imported under another name.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_any_object_has_is_not_deleted() {
    let rig = without_its_claim().await;
    let handle = rig.driver.volumes()[0].id.clone();
    let claim = json!({"namespace": rig.namespace, "name": "other"});
    let imported = object(
        &rig,
        &format!("imported-{}", rig.namespace),
        &rig.name,
        &handle,
        &claim,
    );
    create::<PersistentVolume>(&rig.volumes(), imported).await;
    let _sidecar = rig.sidecar(run, &[]);
    let said = rig.event(&lease_name(&rig), "VolumeInUse", &handle).await;
    assert!(
        said.contains(&format!("imported-{}", rig.namespace)),
        "{said}"
    );
    rig.journal_is_empty().await;
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    assert_eq!(rig.driver.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn force_does_not_delete_what_somebody_has() {
    let rig = without_its_claim().await;
    let volume = tamper(&rig, age).await;
    let handle = rig.driver.volumes()[0].id.clone();
    let claim = json!({"namespace": rig.namespace, "name": "other"});
    let imported = object(
        &rig,
        &format!("kept-{}", rig.namespace),
        &rig.name,
        &handle,
        &claim,
    );
    create::<PersistentVolume>(&rig.volumes(), imported).await;
    let force = format!("--force-intent={volume}");
    let _sidecar = rig.sidecar(run, &[&force]);
    rig.event(&lease_name(&rig), "VolumeInUse", &handle).await;
    eventually("the intent is settled", async || {
        rig.intents().await.is_empty().then_some(())
    })
    .await;
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
}
