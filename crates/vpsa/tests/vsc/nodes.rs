//! VSCNodes: they go with their Nodes, and nodes that are lost are fenced before their pods are let go.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment as Record;
use serde_json::{Value, json};
use stowage_api::vpsa::{FENCED, VolumeAttachment, VscNode};
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};

use crate::asked::asked;
use crate::attachments::{attach, is, node, servers};
use crate::rig::{Rig, array};

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
async fn set_ready(rig: &Rig, name: &str, ready: &str) {
    let since = jiff::Timestamp::now() - Duration::from_secs(3600);
    let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": since.to_string(),
        "lastHeartbeatTime": since.to_string(), "reason": "Test", "message": "Test"}]);
    rig.patch_status::<Node>(name, json!({"status": {"conditions": conditions}}))
        .await;
}

async fn machine(rig: &Rig, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    rig.create::<Node>(object).await;
    set_ready(rig, name, "True").await;
}

/// A rig with a volume that is attached to node `lost`; node `well` is well.
async fn scene(rig: &Rig, array: &stowage_sim::vpsa::Array) -> String {
    for name in ["lost", "well"] {
        machine(rig, name).await;
        node(rig, name, &format!("10.0.0.{}", name.len()), None).await;
    }
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig.volume("share", "10Gi", json!({})).await;
    let attachment = attach(rig, "share", "lost", "NFS").await;
    is(rig, &attachment, "Ready").await;
    rig.apply(PODS);
    attachment
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_is_fenced_on_the_array_before_its_pods_are_deleted() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| rig.node_loss = Some(Duration::from_secs(60))).await;
    let attachment = scene(&rig, &array).await;
    // The array does not do it at first: so long nobody may start elsewhere.
    let fault = Fault {
        path: Some("volumes/*/detach".to_owned()),
        trouble: Trouble::from(Own::Garbage),
        ..Fault::default()
    };
    array.control().add_fault(fault).await.unwrap();
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
    rig.until::<VscNode>("lost", |it| !fenced(it)).await;
    rig.event("lost", "Readmitted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_moved_unless_asked_for_and_a_vscnode_goes_with_its_node() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::start().await;
    let attachment = scene(&rig, &array).await;
    set_ready(&rig, "lost", "Unknown").await;
    rig.delete::<Node>("well").await;
    rig.until::<VscNode>("well", Value::is_null).await;
    // That was several looks at the other, too.
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
