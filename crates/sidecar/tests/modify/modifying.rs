//! Volumes follow the VolumeAttributesClass of their claims.

use serde_json::json;
use stowage_csi::proto::csi::ControllerModifyVolumeRequest;
use stowage_memory_driver::{Mishap, Moment, Trouble};
use tonic::Code;

use crate::newer::Newer;

const MODIFY: &str = "ControllerModifyVolume";

async fn newer() -> Newer {
    Newer::new(|_| {}, &["--extra-modify-metadata", "--resizer-timeout=1s"]).await
}

fn asked(newer: &Newer) -> Vec<String> {
    let requests = newer.rig.driver.requests::<ControllerModifyVolumeRequest>();
    let tier = |request: &ControllerModifyVolumeRequest| request.mutable_parameters["tier"].clone();
    requests.iter().map(tier).collect()
}

/// The driver in memory knows one mutable parameter.
fn with_classes(newer: &Newer) {
    for name in ["gold", "iron"] {
        let parameters = json!({ "tier": name });
        newer.overlay.set_class(name, &newer.rig.name, &parameters);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_gets_the_class_that_its_claim_wants() {
    let newer = Newer::new(|_| {}, &[]).await;
    with_classes(&newer);
    newer.want("gold").await;
    newer
        .has(json!({"currentVolumeAttributesClassName": "gold"}))
        .await;
    newer.says(&[]).await;
    let kept = newer.rig.driver.volumes().remove(0);
    assert_eq!(kept.mutable_parameters["tier"], "gold");
    let text = "external resizer is modifying volume data with vac gold";
    newer.rig.event("data", "VolumeModify", text).await;
    let text = "external resizer modified volume data with vac gold successfully";
    newer
        .rig
        .event("data", "VolumeModifySuccessful", text)
        .await;
    newer.want("iron").await;
    newer
        .has(json!({"currentVolumeAttributesClassName": "iron"}))
        .await;
    assert_eq!(asked(&newer), ["gold", "iron"]);
}

/// Kubernetes' own suite waits for the condition, and then names a class that can be used.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_another_driver_is_refused_as_the_driver_would_and_another_class_helps() {
    let newer = Newer::new(|_| {}, &[]).await;
    with_classes(&newer);
    let parameters = json!({ "tier": "lead" });
    newer
        .overlay
        .set_class("foreign", "another.csi.test", &parameters);
    newer.want("foreign").await;
    let status = json!({
        "targetVolumeAttributesClassName": "foreign",
        "status": "Infeasible",
    });
    newer.has(json!({ "modifyVolumeStatus": status })).await;
    newer.says(&["ModifyVolumeError"]).await;
    let text = "VolumeAttributesClass `foreign` is for driver `another.csi.test`";
    newer.rig.event("data", "VolumeModifyFailed", text).await;
    assert_eq!(newer.rig.driver.calls(MODIFY), 0);
    newer.want("gold").await;
    newer
        .has(json!({"currentVolumeAttributesClassName": "gold"}))
        .await;
    newer.says(&[]).await;
    assert_eq!(asked(&newer), ["gold"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_told_only_if_asked_for() {
    let newer = newer().await;
    with_classes(&newer);
    newer.want("gold").await;
    newer.rig.called(MODIFY, 1).await;
    let request: ControllerModifyVolumeRequest = newer.rig.driver.last_request().unwrap();
    let told = &request.mutable_parameters;
    assert_eq!(told["csi.storage.k8s.io/pvc/name"], "data");
    assert_eq!(
        told["csi.storage.k8s.io/pvc/namespace"],
        newer.rig.namespace
    );
    assert_eq!(told["csi.storage.k8s.io/pv/name"], newer.volume);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_missing_is_waited_for() {
    let newer = Newer::new(|_| {}, &[]).await;
    newer.want("gold").await;
    let pending = json!({"targetVolumeAttributesClassName": "gold", "status": "Pending"});
    newer.has(json!({ "modifyVolumeStatus": pending })).await;
    let text = "VolumeAttributesClass `gold` does not exist";
    newer.rig.event("data", "VolumeModifyFailed", text).await;
    assert_eq!(newer.rig.driver.calls(MODIFY), 0);
    with_classes(&newer);
    newer
        .has(json!({"currentVolumeAttributesClassName": "gold"}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_driver_will_never_do_is_said_and_can_be_taken_back() {
    let newer = Newer::new(|_| {}, &[]).await;
    with_classes(&newer);
    newer.want("iron").await;
    newer
        .has(json!({"currentVolumeAttributesClassName": "iron"}))
        .await;
    let refusal = Mishap::refuse(Code::InvalidArgument, "no such tier");
    newer.rig.driver.upset(MODIFY, refusal);
    newer.want("gold").await;
    let infeasible = json!({"targetVolumeAttributesClassName": "gold", "status": "Infeasible"});
    newer
        .has(json!({
            "currentVolumeAttributesClassName": "iron",
            "modifyVolumeStatus": infeasible,
        }))
        .await;
    newer.says(&["ModifyVolumeError"]).await;
    newer
        .rig
        .event("data", "VolumeModifyFailed", "no such tier")
        .await;
    newer.want("iron").await;
    newer
        .has(json!({"currentVolumeAttributesClassName": "iron"}))
        .await;
    newer.says(&[]).await;
    newer.rig.event("data", "VolumeModifyCanceled", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_end_is_unknown_is_made_again_after_a_crash_and_before_another_class() {
    let mut newer = Newer::new(|_| {}, &["--resizer-timeout=1s"]).await;
    with_classes(&newer);
    let hang = Mishap::new(Moment::Before, Trouble::Hang);
    newer.rig.driver.upset(MODIFY, hang);
    newer.want("gold").await;
    newer.rig.called(MODIFY, 1).await;
    newer.want("iron").await;
    newer.restart().await;
    newer.rig.called(MODIFY, 2).await;
    newer.rig.driver.mend();
    newer
        .has(json!({"currentVolumeAttributesClassName": "iron"}))
        .await;
    let asked = asked(&newer);
    let golds = asked.iter().take_while(|tier| *tier == "gold").count();
    assert!(golds >= 2 && asked[golds..] == ["iron"], "{asked:?}");
}
