//! What bars a node for volumes: it outlives the Node, and single disks that were detached in use bar it for what is new.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use stowage_api::vpsa::{DETACHED, FENCED, FORGET, LEFT, VolumeAttachment, VscNode};
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};
use stowage_vpsa::rest::api::NewServer;

use crate::vsc::arrays::api_of;
use crate::vsc::asked::asked;
use crate::vsc::attachments::{attach, is, node, servers};
use crate::vsc::nodes::{
    OFTEN, SOON, annotation, looked_at, machine, refuse_to_detach, scene, set_ready,
};
use crate::vsc::rig::{Rig, array};

async fn annotate(rig: &Rig, name: &str, key: &str, value: &str) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    rig.patch::<VscNode>(name, patch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_outlives_its_node_until_somebody_lets_it_go_and_its_server_record_goes_first() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| {
        rig.node_loss = Some(Duration::from_secs(60));
        rig.node_interval = OFTEN;
    })
    .await;
    let attachment = scene(&rig, &array).await;
    set_ready(&rig, "lost", "Unknown").await;
    rig.until::<VolumeAttachment>(&attachment, Value::is_null)
        .await;
    // Whose Node is there is not let go.
    annotate(&rig, "lost", FORGET, "yes").await;
    let is_kept = |it: &Value| annotation(it, FORGET).is_null();
    rig.until::<VscNode>("lost", is_kept).await;
    rig.warning("lost", "NotDismissed").await;

    rig.delete::<Node>("lost").await;
    looked_at(&rig, SOON).await;
    let kept = rig.until::<VscNode>("lost", |_| true).await;
    assert!(annotation(&kept, FENCED).is_string(), "{kept}");

    // A record of it that is left on the array would let the machine in.
    let left = NewServer {
        display_name: "lost",
        ip: kept["spec"]["NAS"]["IP"].as_str(),
        iqn: None,
        chap: None,
    };
    let made = api_of(&array).create_server(&left).await;
    made.unwrap().done().unwrap();
    let fault = Fault {
        method: Some("DELETE".to_owned()),
        path: Some("servers/*".to_owned()),
        trouble: Trouble::from(Own::Say {
            status: 7,
            message: "not now".to_owned(),
        }),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
    annotate(&rig, "lost", FORGET, "yes").await;
    asked(&array, "DELETE servers/*", 2).await;
    let kept = rig.until::<VscNode>("lost", |_| true).await;
    assert!(annotation(&kept, FENCED).is_string(), "{kept}");

    array.control().clear_faults().await.unwrap();
    rig.until::<VscNode>("lost", Value::is_null).await;
    assert_eq!(servers(&array).await, []);
    rig.event("lost", "Dismissed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_forced_off_bars_its_node_for_new_disks_until_the_node_has_answered() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| rig.node_interval = OFTEN).await;
    machine(&rig, "n").await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    node(&rig, "n", "10.0.0.1", Some("iqn.2026-01.x:n")).await;
    for name in ["used", "idle", "next"] {
        rig.volume(name, "10Gi", json!({"volumeType": "Block"}))
            .await;
    }
    rig.volume("share", "10Gi", json!({})).await;
    let used = attach(&rig, "used", "n", "ISCSI").await;
    let lun = is(&rig, &used, "ISCSILoginPending").await["status"]["Block"]["lun"].clone();
    let idle = attach(&rig, "idle", "n", "ISCSI").await;
    is(&rig, &idle, "ISCSILoginPending").await;
    let share = attach(&rig, "share", "n", "NFS").await;
    is(&rig, &share, "Ready").await;
    // The node has said that it does not use it.
    rig.delete::<VolumeAttachment>(&idle).await;
    rig.until::<VolumeAttachment>(&idle, Value::is_null).await;
    let told = rig.until::<VscNode>("n", |_| true).await;
    assert!(annotation(&told, DETACHED).is_null(), "{told}");

    let session = json!({"status": {"Block": {"ISCSIStatus": "Active"}}});
    rig.patch_status::<VolumeAttachment>(&used, session).await;
    is(&rig, &used, "Ready").await;
    refuse_to_detach(&array).await;
    rig.delete::<VolumeAttachment>(&used).await;
    asked(&array, "POST volumes/*/detach", 2).await;
    let told = rig.until::<VscNode>("n", |_| true).await;
    let mark = annotation(&told, DETACHED);
    assert!(mark.as_str().unwrap().contains("\"used\""), "{told}");
    rig.warning("n", "DetachedInUse").await;

    let next = attach(&rig, "next", "n", "ISCSI").await;
    let waits = |it: &Value| it["status"]["conditions"][0]["reason"] == "NodeNotClean";
    let waiting = rig.until::<VolumeAttachment>(&next, waits).await;
    let said = waiting["status"]["conditions"][0]["message"].to_string();
    assert!(
        said.contains(&format!("kubectl annotate vscnode n {FORGET}")),
        "{said}"
    );
    // An answer to another question is none.
    annotate(&rig, "n", LEFT, "[]").await;
    array.control().clear_faults().await.unwrap();
    rig.until::<VolumeAttachment>(&used, Value::is_null).await;
    rig.until::<VolumeAttachment>(&next, waits).await;
    is(&rig, &share, "Ready").await;

    annotate(&rig, "n", LEFT, mark.as_str().unwrap()).await;
    let attached = is(&rig, &next, "ISCSILoginPending").await;
    assert_eq!(
        attached["status"]["Block"]["lun"], lun,
        "the number is given anew"
    );
    let told = rig.until::<VscNode>("n", |_| true).await;
    assert!(
        annotation(&told, DETACHED).is_null() && annotation(&told, LEFT).is_null(),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_with_one_initiator_the_second_gets_no_disks_and_both_are_named() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::start().await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    node(&rig, "a", "10.0.0.1", Some("iqn.2026-01.x:image")).await;
    node(&rig, "b", "10.0.0.2", Some("iqn.2026-01.x:IMAGE")).await;
    rig.volume("disk", "10Gi", json!({"volumeType": "Block"}))
        .await;
    rig.volume("share", "10Gi", json!({})).await;
    let share = attach(&rig, "share", "b", "NFS").await;
    is(&rig, &share, "Ready").await;
    let first = attach(&rig, "disk", "a", "ISCSI").await;
    is(&rig, &first, "ISCSILoginPending").await;
    let second = attach(&rig, "disk", "b", "ISCSI").await;
    is(&rig, &second, "Failed").await;
    let said = rig.warning(&second, "DuplicateInitiator").await;
    assert!(said.contains("`a`") && said.contains("`b`"), "{said}");

    let own = json!({"spec": {"block": {"IQN": "iqn.2026-01.x:b"}}});
    rig.patch::<VscNode>("b", own).await;
    is(&rig, &second, "ISCSILoginPending").await;
}
