//! Claims and classes that cannot work: nothing is sent to the driver, and the claim says what to do.

use serde_json::{Value, json};
use stowage_sidecar::controller::run;
use stowage_stage::Rig;

const PREFIX: &str = "csi.storage.k8s.io";

/// A class and a claim that are refused with these words; meanwhile another claim of a good class is bound.
async fn refused(class: Value, claim: Value, says: &str) {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(class).await;
    rig.claim("data", claim).await;
    let message = rig.event("data", "ProvisioningFailed", says).await;
    assert!(
        message.starts_with("failed to provision volume: "),
        "{message}"
    );
    let failed = "controller_persistentvolumeclaim_provision_failed_total";
    sidecar.shows(&[failed, &rig.name]).await;
    sidecar
        .shows(&["stowage_workqueue_failing_seconds", "name=\"claims\""])
        .await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    assert!(rig.intents().await.is_empty());
    let good = format!("{}-good", rig.name);
    rig.class(json!({"metadata": {"name": good}})).await;
    rig.claim("good", json!({"spec": {"storageClassName": good}}))
        .await;
    rig.bound("good").await;
    rig.delete_claim("data").await;
    rig.claim_is_gone("data").await;
    assert_eq!(rig.driver.volumes().len(), 1);
    sidecar.stop().await.unwrap();
    assert!(rig.intents().await.is_empty());
}

fn secret(name: &str, namespace: &str) -> Value {
    json!({"parameters": {
        format!("{PREFIX}/provisioner-secret-name"): name,
        format!("{PREFIX}/provisioner-secret-namespace"): namespace,
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_does_not_exist() {
    let class = secret("login", "${pvc.namespace}");
    refused(class, json!({}), "/login` does not exist: create it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_comes_later_is_found() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(secret("login", &rig.namespace)).await;
    rig.claim("data", json!({})).await;
    rig.event("data", "ProvisioningFailed", "does not exist")
        .await;
    rig.secret("login", "user", "admin").await;
    rig.bound("data").await;
    assert_eq!(rig.creations()[0].secrets["user"], "admin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_does_not_resolve() {
    let class = secret("login-${pvc.annotations['team']}", "${pvc.namespace}");
    refused(class, json!({}), "the claim has no annotation `team`").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_with_an_unknown_token() {
    let class = secret("login", "${pvc.name}");
    refused(class, json!({}), "`${pvc.name}` is not known here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_nobody_knows() {
    let class = json!({"parameters": {format!("{PREFIX}/color"): "red"}});
    let says = "parameter `csi.storage.k8s.io/color` is unknown";
    refused(class, json!({}), says).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_secret() {
    let class = json!({"parameters": {format!("{PREFIX}/node-stage-secret-name"): "x"}});
    let says = "needs parameter `csi.storage.k8s.io/node-stage-secret-namespace`";
    refused(class, json!({}), says).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_no_volume_can_have() {
    // The server makes of it the largest number there is; it is for the driver to refuse.
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    let size = json!({"resources": {"requests": {"storage": "100Ei"}}});
    rig.claim("data", json!({ "spec": size })).await;
    let says = "code = ResourceExhausted desc = there is no room for it";
    rig.event("data", "ProvisioningFailed", says).await;
    let asked = rig.creations()[0].capacity_range.unwrap().required_bytes;
    assert_eq!(asked, i64::MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector() {
    let claim = json!({"spec": {"selector": {"matchLabels": {"disk": "big"}}}});
    refused(json!({}), claim, "remove spec.selector").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_deleted_is_missed_and_taken_up_when_it_comes_back() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let annotations = json!({"volume.beta.kubernetes.io/storage-provisioner": rig.name});
    rig.claim("data", json!({"metadata": {"annotations": annotations}}))
        .await;
    rig.delete_class().await;
    let sidecar = rig.sidecar(run, &["--retry-interval-start=60s"]);
    let says = format!(
        "storage class `{}` does not exist or is for another driver",
        rig.name
    );
    rig.event("data", "ProvisioningFailed", &says).await;
    assert!(sidecar.runs().await);
    rig.class(json!({})).await;
    rig.bound("data").await;
}
