//! Attachments that are taken away regardless of their finalizer, while the driver is at work.

use std::time::Duration;

use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use stowage_memory_driver::{Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually};
use tonic::Code;

/// The driver attaches, says that it is not available, and by then nobody wants it any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_driver_may_have_attached_is_detached_although_the_attachment_is_gone() {
    let publish = "ControllerPublishVolume";
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &["--retry-interval-start=100ms"]);
    rig.plane()
        .add_node(&rig.namespace, &rig.name, &[])
        .unwrap();
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();

    let late = Trouble::Delay(Duration::from_secs(1));
    let lost = Trouble::Refuse(Code::Unavailable, "who knows".to_owned());
    for trouble in [late, lost] {
        let mishap = Mishap::new(Moment::After, trouble).once();
        rig.driver.upset(publish, mishap);
    }
    let attachments = Api::<VolumeAttachment>::all(rig.client.clone());
    let object = json!({
        "metadata": {"name": volume},
        "spec": {
            "attacher": rig.name,
            "nodeName": rig.namespace,
            "source": {"persistentVolumeName": volume},
        },
    });
    create(&attachments, object).await;
    eventually("the volume is attached", async || {
        (rig.driver.publications().len() == 1).then_some(())
    })
    .await;

    let params = DeleteParams::default();
    attachments.delete(&volume, &params).await.unwrap();
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    attachments.patch(&volume, &params, &none).await.unwrap();

    eventually("the volume is detached", async || {
        rig.driver.publications().is_empty().then_some(())
    })
    .await;
    assert_eq!(rig.driver.calls(publish), 1);
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    sidecar.stop().await.unwrap();
}
