//! Volumes that look as if nobody wanted them, and are kept all the same.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_memory_driver::Profile;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually, merge};

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// On a server without controllers: a phase stays as it is written.
async fn rig() -> Rig {
    let places_are_one = |mut profile: Profile| {
        profile.topology = false;
        profile
    };
    Rig::with_snapshots(places_are_one).await
}

/// The minor version of the rig's server.
pub async fn minor(rig: &Rig) -> u32 {
    let version = rig.client.apiserver_version().await.unwrap();
    let digits = version.minor.chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap()
}

/// A volume that the driver has, and its object in this phase, to be deleted with its claim. Returns name and handle.
async fn volume_in(rig: &Rig, phase: &str, more: Value) -> (String, String) {
    let handle = rig.volume("old").await;
    let name = format!("old-{}", rig.namespace);
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": rig.namespace, "name": "data", "uid": "gone"},
            "csi": {"driver": rig.name, "volumeHandle": handle},
            "persistentVolumeReclaimPolicy": "Delete",
        },
    });
    merge(&mut object, more);
    create::<PersistentVolume>(&rig.volumes(), object).await;
    let phase = Patch::Merge(json!({"status": {"phase": phase}}));
    let params = PatchParams::default();
    let written = rig.volumes().patch_status(&name, &params, &phase).await;
    written.unwrap();
    (name, handle)
}

fn provisioned_by(driver: &str) -> Value {
    json!({"metadata": {"annotations": {PROVISIONED_BY: driver}}})
}

async fn is_deleted(rig: &Rig, handle: &str) {
    eventually("the volume is deleted", async || {
        (rig.driver.deleted_volumes() == [handle]).then_some(())
    })
    .await;
}

/// Kubernetes before 1.30 leaves all static volumes so whose claims go: some have been kept for years.
#[tokio::test(flavor = "multi_thread")]
async fn a_static_volume_that_rests_in_failed_is_told_of_and_kept_until_somebody_says_otherwise() {
    let rig = rig().await;
    let (name, handle) = volume_in(&rig, "Failed", json!({})).await;
    let sidecar = rig.sidecar(run, &[]);
    let text = rig.event(&name, "VolumeKept", PROVISIONED_BY).await;
    assert!(text.contains(&rig.name), "{text}");
    sidecar.shows(&["stowage_sidecar_volumes_kept", " 1"]).await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    let kept = rig.volumes().get(&name).await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);

    let patch = Patch::Merge(provisioned_by(&rig.name));
    let params = PatchParams::default();
    rig.volumes().patch(&name, &params, &patch).await.unwrap();
    is_deleted(&rig, &handle).await;
    sidecar.shows(&["stowage_sidecar_volumes_kept", " 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_of_a_kept_volume_can_be_deleted_and_its_data_stays() {
    let rig = rig().await;
    let guarded = json!({"metadata": {"finalizers": [
        "external-provisioner.volume.kubernetes.io/finalizer",
    ]}});
    let (name, _) = volume_in(&rig, "Failed", guarded).await;
    let params = DeleteParams::default();
    rig.volumes().delete(&name, &params).await.unwrap();
    let _sidecar = rig.sidecar(run, &[]);
    eventually("our finalizer is gone", async || {
        let volume = rig.volumes().get_opt(&name).await.unwrap();
        let finalizers = volume.and_then(|volume| volume.metadata.finalizers);
        let mut all = finalizers.into_iter().flatten();
        (!all.any(|one| one.starts_with("external-provisioner"))).then_some(())
    })
    .await;
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
}

/// A person clears it to keep the volume; the phase follows later.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_reference_to_its_claim_was_cleared_is_kept() {
    let rig = rig().await;
    let mut cleared = provisioned_by(&rig.name);
    merge(&mut cleared, json!({"spec": {"claimRef": null}}));
    let (name, _) = volume_in(&rig, "Released", cleared).await;
    let sidecar = rig.sidecar(run, &[]);
    rig.event(&name, "VolumeKept", "spec.claimRef").await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
}

/// Where Kubernetes marks static volumes Failed itself, whether one is deleted must not depend on who looks first.
#[tokio::test(flavor = "multi_thread")]
async fn a_released_static_volume_is_deleted_only_where_kubernetes_lets_it_rest() {
    let rig = rig().await;
    let (name, handle) = volume_in(&rig, "Released", json!({})).await;
    let sidecar = rig.sidecar(run, &[]);
    if minor(&rig).await >= 30 {
        is_deleted(&rig, &handle).await;
        return;
    }
    rig.event(&name, "VolumeKept", PROVISIONED_BY).await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_the_driver_provisioned_is_deleted_also_where_it_says_failed() {
    let rig = rig().await;
    let (_, handle) = volume_in(&rig, "Failed", provisioned_by(&rig.name)).await;
    let _sidecar = rig.sidecar(run, &[]);
    is_deleted(&rig, &handle).await;
}
