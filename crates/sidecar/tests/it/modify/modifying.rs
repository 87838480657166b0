//! Volumes follow the VolumeAttributesClass of their claims.

use serde_json::json;
use stowage_csi::proto::csi::ControllerModifyVolumeRequest;
use stowage_memory_driver::{Mishap, Moment, Trouble};
use tonic::Code;

use crate::modify::newer::Newer;

const MODIFY: &str = "ControllerModifyVolume";
/// Whoever goes on was told to.
const NO_RETRY: [&str; 2] = ["--retry-interval-start=10m", "--retry-interval-max=20m"];

async fn newer() -> Newer {
    Newer::new(|_| {}, &["--extra-modify-metadata", "--resizer-timeout=1s"]).await
}

fn asked(newer: &Newer) -> Vec<String> {
    let requests = newer.rig.driver.requests::<ControllerModifyVolumeRequest>();
    let tier = |request: &ControllerModifyVolumeRequest| request.mutable_parameters["tier"].clone();
    requests.iter().map(tier).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_gets_the_class_that_its_claim_wants() {
    let newer = Newer::new(|_| {}, &[]).await;
    newer.make_classes().await;
    newer.want(&newer.gold).await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.gold}))
        .await;
    newer.says(&[]).await;
    let kept = newer.rig.driver.volumes().remove(0);
    assert_eq!(kept.mutable_parameters["tier"], "gold");
    let gold = &newer.gold;
    let text = format!("external resizer is modifying volume data with vac {gold}");
    newer.rig.event("data", "VolumeModify", &text).await;
    let text = format!("external resizer modified volume data with vac {gold} successfully");
    newer
        .rig
        .event("data", "VolumeModifySuccessful", &text)
        .await;
    newer.want(&newer.iron).await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.iron}))
        .await;
    assert_eq!(asked(&newer), ["gold", "iron"]);
}

/// Kubernetes' own suite waits for the condition, and then names a class that can be used.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_another_driver_is_refused_as_the_driver_would_and_another_class_helps() {
    let newer = Newer::new(|_| {}, &[]).await;
    newer.make_classes().await;
    let foreign = format!("foreign-{}", newer.rig.namespace);
    newer.make_class(&foreign, "another.csi.test", "lead").await;
    newer.want(&foreign).await;
    let status = json!({
        "targetVolumeAttributesClassName": foreign,
        "status": "Infeasible",
    });
    newer.has(json!({ "modifyVolumeStatus": status })).await;
    newer.says(&["ModifyVolumeError"]).await;
    let text = format!("VolumeAttributesClass `{foreign}` is for driver `another.csi.test`");
    newer.rig.event("data", "VolumeModifyFailed", &text).await;
    assert_eq!(newer.rig.driver.calls(MODIFY), 0);
    newer.want(&newer.gold).await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.gold}))
        .await;
    newer.says(&[]).await;
    assert_eq!(asked(&newer), ["gold"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_told_only_if_asked_for() {
    let newer = newer().await;
    newer.make_classes().await;
    newer.want(&newer.gold).await;
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
    let newer = Newer::new(|_| {}, &NO_RETRY).await;
    newer.want(&newer.gold).await;
    let pending = json!({"targetVolumeAttributesClassName": newer.gold, "status": "Pending"});
    newer.has(json!({ "modifyVolumeStatus": pending })).await;
    let text = format!("VolumeAttributesClass `{}` does not exist", newer.gold);
    newer.rig.event("data", "VolumeModifyFailed", &text).await;
    assert_eq!(newer.rig.driver.calls(MODIFY), 0);
    newer.make_classes().await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.gold}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_claim_whose_class_is_missing_is_provisioned_when_it_comes() {
    let newer = Newer::new(|_| {}, &NO_RETRY).await;
    newer.claim_of_class("late", &newer.gold).await;
    let text = format!("VolumeAttributesClass `{}` does not exist", newer.gold);
    newer.rig.event("late", "ProvisioningFailed", &text).await;
    newer.make_classes().await;
    newer.rig.bound("late").await;
    let volumes = newer.rig.driver.volumes();
    let tiers = volumes
        .iter()
        .filter_map(|one| one.mutable_parameters.get("tier"));
    assert_eq!(tiers.collect::<Vec<_>>(), ["gold"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_driver_will_never_do_is_said_and_can_be_taken_back() {
    let newer = Newer::new(|_| {}, &[]).await;
    newer.make_classes().await;
    newer.want(&newer.iron).await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.iron}))
        .await;
    let refusal = Mishap::refuse(Code::InvalidArgument, "no such tier");
    newer.rig.driver.upset(MODIFY, refusal);
    newer.want(&newer.gold).await;
    let infeasible = json!({"targetVolumeAttributesClassName": newer.gold, "status": "Infeasible"});
    newer
        .has(json!({
            "currentVolumeAttributesClassName": newer.iron,
            "modifyVolumeStatus": infeasible,
        }))
        .await;
    newer.says(&["ModifyVolumeError"]).await;
    newer
        .rig
        .event("data", "VolumeModifyFailed", "no such tier")
        .await;
    newer.rig.driver.mend();
    newer.want(&newer.iron).await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.iron}))
        .await;
    newer.says(&[]).await;
    assert_eq!(asked(&newer), ["iron", "gold", "iron"]);
}

/// It may have changed half of the volume.
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_failed_is_called_to_go_back_to_the_former_class() {
    let newer = Newer::new(|_| {}, &[]).await;
    newer.make_classes().await;
    newer.want(&newer.iron).await;
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.iron}))
        .await;
    let failure = Mishap::refuse(Code::Internal, "half way");
    newer.rig.driver.upset(MODIFY, failure);
    newer.want(&newer.gold).await;
    newer
        .rig
        .event("data", "VolumeModifyFailed", "half way")
        .await;
    newer.want(&newer.iron).await;
    // Also where that fails at first: the claim says so meanwhile.
    let open = json!({"targetVolumeAttributesClassName": newer.iron, "status": "InProgress"});
    newer
        .has(json!({
            "currentVolumeAttributesClassName": newer.iron,
            "modifyVolumeStatus": open,
        }))
        .await;
    newer.rig.driver.mend();
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.iron}))
        .await;
    newer.says(&[]).await;
    let asked = asked(&newer);
    assert_eq!(asked.last().unwrap(), "iron", "{asked:?}");
    assert!(asked.contains(&"gold".to_owned()), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_end_is_unknown_is_made_again_after_a_crash_and_before_another_class() {
    let mut newer = Newer::new(|_| {}, &["--resizer-timeout=1s"]).await;
    newer.make_classes().await;
    let hang = Mishap::new(Moment::Before, Trouble::Hang);
    newer.rig.driver.upset(MODIFY, hang);
    newer.want(&newer.gold).await;
    newer.rig.called(MODIFY, 1).await;
    newer.want(&newer.iron).await;
    newer.restart().await;
    newer.rig.called(MODIFY, 2).await;
    newer.rig.driver.mend();
    newer
        .has(json!({"currentVolumeAttributesClassName": newer.iron}))
        .await;
    let asked = asked(&newer);
    let golds = asked.iter().take_while(|tier| *tier == "gold").count();
    assert!(golds >= 2 && asked[golds..] == ["iron"], "{asked:?}");
}
