//! Volumes go when their claims do, and not before.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_csi::proto::csi::DeleteVolumeRequest;
use stowage_memory_driver::Fault;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};

use crate::controller::kept::minor;
use crate::controller::rbac::without;

const PROTECTION: &str = "external-provisioner.volume.kubernetes.io/finalizer";

async fn set_reclaim(rig: &Rig, volume: &str, policy: &str) {
    let patch = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
    let patch = Patch::Merge(&patch);
    let params = PatchParams::default();
    rig.volumes().patch(volume, &params, &patch).await.unwrap();
}

async fn is_protected(rig: &Rig, volume: &str, expected: bool) {
    let what = format!("protected by a finalizer: {expected}");
    eventually(&what, async || {
        let volume = rig.volumes().get(volume).await.unwrap();
        let finalizers = volume.metadata.finalizers.unwrap_or_default();
        let is = finalizers.iter().any(|one| one == PROTECTION);
        (is == expected).then_some(())
    })
    .await;
}

async fn phase(rig: &Rig, volume: &str, expected: &str) {
    eventually(&format!("the volume is {expected}"), async || {
        let volume = rig.volumes().get(volume).await.unwrap();
        let phase = volume.status.and_then(|status| status.phase);
        (phase.as_deref() == Some(expected)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_finalizer_follows_the_reclaim_policy() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    is_protected(&rig, &volume, true).await;
    set_reclaim(&rig, &volume, "Retain").await;
    is_protected(&rig, &volume, false).await;
    set_reclaim(&rig, &volume, "Delete").await;
    is_protected(&rig, &volume, true).await;
    rig.delete_claim("data").await;
    rig.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_volume_goes_as_soon_as_its_policy_says_so() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"reclaimPolicy": "Retain"})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    rig.delete_claim("data").await;
    phase(&rig, &volume, "Released").await;
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    set_reclaim(&rig, &volume, "Delete").await;
    rig.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_volume_is_deleted_when_it_is_detached() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    let node = rig.node("n", &[]).await;
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    let attachments = Api::<VolumeAttachment>::all(rig.client.clone());
    let name = format!("csi-{}", rig.namespace);
    let object = json!({
        "metadata": {"name": name},
        "spec": {"attacher": rig.name, "nodeName": node, "source": {"persistentVolumeName": volume}},
    });
    create(&attachments, object).await;
    eventually("it is attached", async || {
        (!rig.driver.publications().is_empty()).then_some(())
    })
    .await;
    rig.delete_claim("data").await;
    let says = format!("it is still attached to node {node}");
    rig.event(&volume, "VolumeFailedDelete", &says).await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    attachments
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    rig.nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_object_was_deleted_by_hand_waits_for_its_claim() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    rig.volumes()
        .delete(&volume, &DeleteParams::default())
        .await
        .unwrap();
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    rig.delete_claim("data").await;
    rig.nothing_left().await;
}

/// A volume that a person made an object for.
async fn static_volume(rig: &Rig, handle: &str, annotations: Value) -> String {
    let name = format!("static-{}", rig.namespace);
    let object = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": rig.name, "volumeHandle": handle},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": rig.name,
        },
    });
    create::<PersistentVolume>(&rig.volumes(), object).await;
    let named = json!({"spec": {"volumeName": name}});
    rig.claim("static", named).await;
    rig.bound("static").await;
    name
}

/// It names this driver, and its policy says what is to become of it: nobody else will delete it.
#[tokio::test(flavor = "multi_thread")]
async fn a_static_volume_is_protected_and_deleted_as_its_policy_says_or_kept_where_kubernetes_fails_it()
 {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"reclaimPolicy": "Retain"})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await;
    let handle = volume.spec.unwrap().csi.unwrap().volume_handle;
    rig.delete_claim("data").await;
    let name = volume.metadata.name.unwrap();
    phase(&rig, &name, "Released").await;
    let params = DeleteParams::default();
    rig.volumes().delete(&name, &params).await.unwrap();

    let name = static_volume(&rig, &handle, json!({})).await;
    is_protected(&rig, &name, true).await;
    rig.delete_claim("static").await;
    if minor(&rig).await >= 30 {
        rig.nothing_left().await;
        assert_eq!(rig.driver.deleted_volumes(), [handle]);
        return;
    }
    // Kubernetes itself marks it Failed.
    rig.event(&name, "VolumeKept", "").await;
    phase(&rig, &name, "Failed").await;
    rig.volumes().delete(&name, &params).await.unwrap();
    eventually("its object is gone", async || {
        let volume = rig.volumes().get_opt(&name).await.unwrap();
        volume.is_none().then_some(())
    })
    .await;
    assert_eq!(rig.driver.deleted_volumes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_somebody_else_provisioned_is_not_ours_to_delete() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    let by = json!({"pv.kubernetes.io/provisioned-by": "another.csi.test"});
    let name = static_volume(&rig, "precious", by).await;
    is_protected(&rig, &name, false).await;
    rig.delete_claim("static").await;
    rig.claim_is_gone("static").await;
    assert!(sidecar.runs().await);
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    rig.volumes().get(&name).await.unwrap();
}

fn with_secret(rig: &Rig) -> Value {
    json!({"parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login",
        "csi.storage.k8s.io/provisioner-secret-namespace": rig.namespace,
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_gone_does_not_keep_a_volume() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(with_secret(&rig)).await;
    rig.secret("login", "user", "admin").await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    rig.delete_secret("login").await;
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    let deletion: DeleteVolumeRequest = rig.driver.last_request().unwrap();
    assert!(deletion.secrets.is_empty());
}

/// Upstream's roles leave secrets out unless a driver needs them.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_may_not_be_read_does_not_keep_a_volume() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(with_secret(&rig)).await;
    rig.secret("login", "user", "admin").await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    sidecar.stop().await.unwrap();
    let user = rig.user(without("secrets", "get")).await;
    let _sidecar = rig.sidecar_as(run, &user, &[]);
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    let deletion: DeleteVolumeRequest = rig.driver.last_request().unwrap();
    assert!(deletion.secrets.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_the_driver_cannot_delete_is_told_and_tried_again() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    rig.driver.set(Fault::VolumeCannotBeDeleted);
    rig.delete_claim("data").await;
    let says = "rpc error: code = Internal desc = it does not go";
    rig.event(&volume, "VolumeFailedDelete", says).await;
    sidecar
        .shows(&["controller_persistentvolume_delete_failed_total", &rig.name])
        .await;
    sidecar
        .shows(&["stowage_workqueue_failing_seconds", &volume, says])
        .await;
    rig.driver.mend();
    rig.nothing_left().await;
}
