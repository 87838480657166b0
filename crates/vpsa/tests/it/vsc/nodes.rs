//! VSCNodes: they go with their Nodes, and nodes that are lost are fenced before their pods are let go.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment as Record;
use serde_json::{Value, json};
use stowage_api::vpsa::{CLEAN, FENCED, RELEASED, VolumeAttachment, VscNode};
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};

use crate::vsc::asked::asked;
use crate::vsc::attachments::{attach, is, node, servers};
use crate::vsc::rig::{Rig, array};

/// What Kubernetes has of a pod on node `lost` with a volume of ours, and of one with a volume of another driver.
const PODS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: default}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ours}
spec: {accessModes: [ReadWriteOnce], volumeName: pv-ours, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: theirs}
spec: {accessModes: [ReadWriteOnce], volumeName: pv-theirs, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: ours}
spec:
  nodeName: lost
  automountServiceAccountToken: false
  containers: [{name: main, image: busybox}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: ours}}]
---
apiVersion: v1
kind: Pod
metadata: {name: theirs}
spec:
  nodeName: lost
  automountServiceAccountToken: false
  containers: [{name: main, image: busybox}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: theirs}}]
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: ours}
spec: {attacher: csi.zadara.com, nodeName: lost, source: {persistentVolumeName: pv-ours}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: theirs}
spec: {attacher: another.driver, nodeName: lost, source: {persistentVolumeName: pv-theirs}}
";

/// A Node that is ready, or has not been for an hour.
pub async fn set_ready(rig: &Rig, name: &str, ready: &str) {
    let since = jiff::Timestamp::now() - Duration::from_secs(3600);
    let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": since.to_string(),
        "lastHeartbeatTime": since.to_string(), "reason": "Test", "message": "Test"}]);
    rig.patch_status::<Node>(name, json!({"status": {"conditions": conditions}}))
        .await;
}

pub async fn machine(rig: &Rig, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    rig.create::<Node>(object).await;
    set_ready(rig, name, "True").await;
}

/// Nodes that go, so that their VSCNodes tell when they were looked at.
pub const SOON: [&str; 3] = ["soon-1", "soon-2", "soon-3"];
pub const LATER: [&str; 3] = ["later-1", "later-2", "later-3"];

/// How often nodes are looked at.
pub const OFTEN: Duration = Duration::from_millis(200);

/// A rig with a volume that is attached to node `lost`; all others are well.
pub async fn scene(rig: &Rig, array: &stowage_sim::vpsa::Array) -> String {
    let witnesses = SOON.into_iter().chain(LATER);
    let names: Vec<&str> = ["lost", "well"].into_iter().chain(witnesses).collect();
    for name in &names {
        machine(rig, name).await;
    }
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    // Later than their Nodes, which are known by now: without them they would go.
    for (number, name) in names.iter().enumerate() {
        node(rig, name, &format!("10.0.0.{number}"), None).await;
    }
    rig.volume("share", "10Gi", json!({})).await;
    let attachment = attach(rig, "share", "lost", "NFS").await;
    is(rig, &attachment, "Ready").await;
    rig.apply(PODS);
    attachment
}

/// Returns when every VSCNode was looked at since, as it and its Node are now. Of these nodes, one after the other goes: the first
/// is seen to be gone by a look that may have begun before, the second by one that began after all of that was known, the third
/// after a whole one.
pub async fn looked_at(rig: &Rig, witnesses: [&str; 3]) {
    for name in witnesses {
        rig.delete::<Node>(name).await;
        rig.until::<VscNode>(name, Value::is_null).await;
    }
}

/// The array does not do it, and does not say why.
pub async fn refuse_to_detach(array: &stowage_sim::vpsa::Array) {
    let fault = Fault {
        path: Some("volumes/*/detach".to_owned()),
        trouble: Trouble::from(Own::Garbage),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_is_fenced_on_the_array_before_its_pods_are_deleted() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| {
        rig.node_loss = Some(Duration::from_secs(60));
        rig.node_interval = OFTEN;
    })
    .await;
    let attachment = scene(&rig, &array).await;
    // The array does not do it at first: so long nobody may start elsewhere.
    refuse_to_detach(&array).await;
    set_ready(&rig, "lost", "Unknown").await;
    let fenced = |it: &Value| it["metadata"]["annotations"][FENCED].is_string();
    rig.until::<VscNode>("lost", fenced).await;
    let told = rig.event("lost", "Fenced").await;
    assert!(told.contains("not been ready"), "{told}");
    let leaves = |it: &Value| it["metadata"]["deletionTimestamp"].is_string();
    rig.until::<VolumeAttachment>(&attachment, leaves).await;
    asked(&array, "POST volumes/*/detach", 3).await;
    assert!(rig.kubectl(&["get", "pod", "ours"]).contains("ours"));
    assert_eq!(servers(&array).await.len(), 1);

    array.control().clear_faults().await.unwrap();
    rig.until::<VolumeAttachment>(&attachment, Value::is_null)
        .await;
    assert_eq!(servers(&array).await, []);
    rig.until::<Record>("ours", Value::is_null).await;
    let pods = rig.kubectl(&["get", "pods", "-o", "name"]);
    assert_eq!(pods, "pod/theirs\n");
    rig.kubectl(&["get", "volumeattachments.storage.k8s.io", "theirs"]);
    let told = rig.event("ours", "NodeLost").await;
    assert!(told.contains("node lost is lost"), "{told}");

    set_ready(&rig, "lost", "True").await;
    answer(&rig).await;
    rig.until::<VscNode>("lost", |it| !fenced(it)).await;
    rig.event("lost", "Readmitted").await;
}

pub fn annotation(node: &Value, key: &str) -> Value {
    node["metadata"]["annotations"][key].clone()
}

/// The node is asked whether something is left there, and says after a while that nothing is.
async fn answer(rig: &Rig) {
    let asked = |it: &Value| annotation(it, RELEASED).is_string();
    let node = rig.until::<VscNode>("lost", asked).await;
    let asked = annotation(&node, RELEASED);
    let say = |value: Value| json!({"metadata": {"annotations": {CLEAN: value}}});
    // An answer to another question is none.
    let other = say(json!("2026-01-01T00:00:00Z"));
    rig.patch::<VscNode>("lost", other).await;
    looked_at(rig, LATER).await;
    let node = rig.until::<VscNode>("lost", Value::is_object).await;
    assert!(annotation(&node, FENCED).is_string(), "{node}");
    assert_eq!(annotation(&node, RELEASED), asked, "it is asked once");
    rig.patch::<VscNode>("lost", say(asked)).await;
}

/// What comes to a node that is back before it is let in.
const NEW_POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: new}
spec:
  nodeName: lost
  automountServiceAccountToken: false
  containers: [{name: main, image: busybox}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: ours}}]
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: new}
spec: {attacher: csi.zadara.com, nodeName: lost, source: {persistentVolumeName: pv-new}}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_back_while_it_is_fenced_is_finished_with_before_it_is_let_in() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| {
        rig.node_loss = Some(Duration::from_secs(60));
        rig.node_interval = OFTEN;
    })
    .await;
    let attachment = scene(&rig, &array).await;
    refuse_to_detach(&array).await;
    set_ready(&rig, "lost", "Unknown").await;
    asked(&array, "POST volumes/*/detach", 1).await;
    set_ready(&rig, "lost", "True").await;
    // Its pod has the filesystem mounted, and Kubernetes believes that it is attached.
    looked_at(&rig, SOON).await;
    let node = rig.until::<VscNode>("lost", Value::is_object).await;
    assert!(annotation(&node, FENCED).is_string(), "{node}");
    assert!(annotation(&node, RELEASED).is_null(), "{node}");

    array.control().clear_faults().await.unwrap();
    rig.until::<VolumeAttachment>(&attachment, Value::is_null)
        .await;
    rig.until::<Record>("ours", Value::is_null).await;
    rig.apply(NEW_POD);
    answer(&rig).await;
    let is_in = |it: &Value| annotation(it, FENCED).is_null();
    let node = rig.until::<VscNode>("lost", is_in).await;
    assert!(annotation(&node, CLEAN).is_null(), "{node}");
    // It was not there before, and is left alone.
    let pods = rig.kubectl(&["get", "pods", "-o", "name"]);
    assert_eq!(pods, "pod/new\npod/theirs\n");
    rig.kubectl(&["get", "volumeattachments.storage.k8s.io", "new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_moved_unless_asked_for_and_a_vscnode_goes_with_its_node() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| rig.node_interval = OFTEN).await;
    let attachment = scene(&rig, &array).await;
    set_ready(&rig, "lost", "Unknown").await;
    rig.delete::<Node>("well").await;
    rig.until::<VscNode>("well", Value::is_null).await;
    looked_at(&rig, SOON).await;
    is(&rig, &attachment, "Ready").await;
    assert!(rig.kubectl(&["get", "pod", "ours"]).contains("ours"));

    // As long as something is attached, the record is needed for detaching it.
    machine(&rig, "later").await;
    node(&rig, "later", "10.0.0.9", None).await;
    for name in ["lost", "later"] {
        rig.delete::<Node>(name).await;
    }
    rig.until::<VscNode>("later", Value::is_null).await;
    rig.until::<VscNode>("lost", Value::is_object).await;
    rig.delete::<VolumeAttachment>(&attachment).await;
    rig.until::<VscNode>("lost", Value::is_null).await;
    assert_eq!(servers(&array).await, []);
}
