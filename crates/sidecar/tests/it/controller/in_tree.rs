//! Volumes of in-tree plugins that were migrated to the driver: they are not translated, and that is said at once.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};

const MIGRATED: &str = "pv.kubernetes.io/migrated-to";
const PLUGIN: &str = "kubernetes.io/aws-ebs";

/// On a server without controllers: those would take the annotation away, as nothing is migrated there.
async fn rig() -> Rig {
    Rig::with_snapshots(|mut profile| {
        profile.topology = false;
        profile
    })
    .await
}

async fn in_tree_volume(rig: &Rig) -> String {
    let name = format!("in-tree-{}", rig.namespace);
    let object = json!({
        "metadata": {"name": name, "annotations": {
            "pv.kubernetes.io/provisioned-by": PLUGIN,
            MIGRATED: rig.name,
        }},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "awsElasticBlockStore": {"volumeID": "vol-1"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
    });
    create::<PersistentVolume>(&rig.volumes(), object).await;
    name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_for_an_in_tree_plugin_is_told_that_nobody_translates_it() {
    let rig = rig().await;
    let _sidecar = rig.sidecar(run, &[]);
    let annotations = json!({
        "volume.beta.kubernetes.io/storage-provisioner": PLUGIN,
        MIGRATED: rig.name,
    });
    rig.claim("data", json!({"metadata": {"annotations": annotations}}))
        .await;
    let says = "they are not translated here; use a storage class whose provisioner is the driver";
    rig.event("data", "ProvisioningFailed", says).await;
    assert_eq!(rig.driver.calls("CreateVolume"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_in_tree_volume_is_told_of_and_left_alone() {
    let rig = rig().await;
    let _sidecar = rig.sidecar(run, &[]);
    let name = in_tree_volume(&rig).await;
    let released = json!({"status": {"phase": "Released"}});
    let params = PatchParams::default();
    let patch = Patch::Merge(released);
    let patched = rig.volumes().patch_status(&name, &params, &patch).await;
    patched.unwrap();
    let says = "it is a volume of an in-tree plugin, which is not translated";
    rig.event(&name, "VolumeFailedDelete", says).await;
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    rig.volumes().get(&name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attachment_of_an_in_tree_volume_says_why_it_waits() {
    let rig = rig().await;
    let _sidecar = rig.sidecar(run, &[]);
    let volume = in_tree_volume(&rig).await;
    let attachments = Api::<VolumeAttachment>::all(rig.client.clone());
    let name = format!("csi-{}", rig.namespace);
    let object = json!({
        "metadata": {"name": name},
        "spec": {"attacher": rig.name, "nodeName": "n", "source": {"persistentVolumeName": volume}},
    });
    create(&attachments, object).await;
    let error = eventually("the attachment shows an error", async || {
        let attachment = attachments.get(&name).await.unwrap();
        attachment.status?.attach_error?.message
    })
    .await;
    assert!(error.contains("is of an in-tree plugin"), "{error}");
    assert_eq!(rig.driver.calls("ControllerPublishVolume"), 0);
}
