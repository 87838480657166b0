//! Objects that the Go provisioner left behind, in each of their states.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use stowage_csi::proto::csi::controller_server::Controller as _;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, VolumeCapability,
};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};

const PROTECTION: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// A volume of the driver, as the Go provisioner had it made; returns its id.
async fn made(rig: &Rig, name: &str) -> String {
    let capability = VolumeCapability {
        access_mode: Some(AccessMode { mode: 1 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    };
    let request = CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 1 << 30,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability],
        ..CreateVolumeRequest::default()
    };
    let answer = rig.driver.create_volume(tonic::Request::new(request)).await;
    answer.unwrap().into_inner().volume.unwrap().volume_id
}

/// The object of a volume whose claim is gone, as the Go provisioner wrote it.
async fn object(rig: &Rig, handle: &str, annotations: Value, finalizers: Value) -> String {
    let name = format!("pvc-{}", rig.namespace);
    let mut all = json!({"pv.kubernetes.io/provisioned-by": rig.name});
    all.as_object_mut()
        .unwrap()
        .extend(annotations.as_object().unwrap().clone());
    let object = json!({
        "metadata": {"name": name, "annotations": all, "finalizers": finalizers},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": rig.namespace, "name": "gone",
                "uid": "6f5bbd4c-3a0f-44bc-9c8e-3a0e6a6a0f44",
            },
            "csi": {"driver": rig.name, "volumeHandle": handle, "volumeAttributes": {
                "storage.kubernetes.io/csiProvisionerIdentity": format!("1690000000000-8081-{}", rig.name),
            }},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": rig.name,
        },
    });
    create::<PersistentVolume>(&rig.volumes(), object).await;
    name
}

fn no_secret() -> Value {
    json!({
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_volume_is_deleted() {
    let rig = Rig::plain().await;
    let handle = made(&rig, "old").await;
    object(&rig, &handle, no_secret(), json!([PROTECTION])).await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.nothing_left().await;
    assert_eq!(rig.driver.deleted_volumes(), [handle]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_an_old_provisioner_without_finalizer_and_annotations_is_deleted_with_the_secret_of_its_class()
 {
    let rig = Rig::plain().await;
    rig.class(json!({"parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login-${pvc.name}",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
    }}))
    .await;
    rig.secret("login-gone", "user", "admin").await;
    let handle = made(&rig, "old").await;
    object(&rig, &handle, json!({}), json!([])).await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.nothing_left().await;
    let deletion: DeleteVolumeRequest = rig.driver.last_request().unwrap();
    assert_eq!(deletion.secrets, [("user".into(), "admin".into())].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_being_deleted_and_kept_by_the_finalizer_alone_is_finished() {
    let rig = Rig::plain().await;
    let handle = made(&rig, "old").await;
    let name = object(&rig, &handle, no_secret(), json!([PROTECTION])).await;
    rig.volumes()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("only the provisioner's finalizer is left", async || {
        let volume = rig.volumes().get(&name).await.unwrap();
        (volume.metadata.finalizers? == [PROTECTION]).then_some(())
    })
    .await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_the_driver_lost_long_ago_does_not_keep_its_object() {
    let rig = Rig::plain().await;
    object(&rig, "vol-long-gone", no_secret(), json!([PROTECTION])).await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_found_by_either_spelling_of_its_annotation_and_after_migration() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    for (claim, annotations) in [
        (
            "beta",
            json!({"volume.beta.kubernetes.io/storage-provisioner": rig.name}),
        ),
        (
            "both",
            json!({
                "volume.beta.kubernetes.io/storage-provisioner": rig.name,
                "volume.kubernetes.io/storage-provisioner": rig.name,
            }),
        ),
        (
            "migrated",
            json!({
                "volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/old-plugin",
                "pv.kubernetes.io/migrated-to": rig.name,
            }),
        ),
    ] {
        rig.claim(claim, json!({"metadata": {"annotations": annotations}}))
            .await;
    }
    let _sidecar = rig.sidecar(run, &[]);
    for claim in ["beta", "both", "migrated"] {
        rig.bound(claim).await;
    }
    assert_eq!(rig.driver.volumes().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_volume_without_the_finalizer_gets_it() {
    let rig = Rig::plain().await;
    rig.class(json!({})).await;
    let handle = made(&rig, "old").await;
    let name = format!("pvc-{}", rig.namespace);
    let claim = rig
        .claim("data", json!({"spec": {"volumeName": name}}))
        .await;
    let object = json!({
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": rig.name}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": rig.namespace, "name": "data", "uid": claim.metadata.uid},
            "csi": {"driver": rig.name, "volumeHandle": handle},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": rig.name,
        },
    });
    create::<PersistentVolume>(&rig.volumes(), object).await;
    rig.bound("data").await;
    let _sidecar = rig.sidecar(run, &[]);
    eventually("it has the finalizer", async || {
        let volume = rig.volumes().get(&name).await.unwrap();
        let finalizers = volume.metadata.finalizers.unwrap_or_default();
        finalizers.contains(&PROTECTION.to_owned()).then_some(())
    })
    .await;
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
}
