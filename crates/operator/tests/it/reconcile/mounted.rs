//! A driver whose mounts die with its pod stays while its nodes tell of any.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::pods;
use crate::reconcile::rig::{Rig, resource};
use crate::told::{Sidecar, flag};

/// A driver pod whose sidecar tells what is mounted.
async fn driver_pod(rig: &Rig) -> (Sidecar, Api<DynamicObject>) {
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    let template = &set["spec"]["template"]["spec"];
    let hash = flag(template, "--mounts-key-sha256=").unwrap();
    let sidecar = Sidecar::start(&format!("{}.example", rig.namespace), &hash, 0).await;
    let port = format!("--mounts-port={}", sidecar.address.port());
    let pod = json!({
        "metadata": {
            "name": pods::NAME,
            "labels": {"csidriver.storage.openshift.io/daemonset": "hostpath-node"},
        },
        "spec": {
            "nodeName": pods::NODE, "automountServiceAccountToken": false,
            "containers": [{"name": "csi-sidecar", "image": "x", "args": [port]}],
        },
    });
    let api = pods::create_as(rig, pod).await;
    let status = json!({"status": {"podIP": sidecar.address.ip(), "phase": "Running"}});
    let (params, status) = (PatchParams::default(), Patch::Merge(status));
    api.patch_status(pods::NAME, &params, &status)
        .await
        .unwrap();
    (sidecar, api)
}

async fn deployed() -> Rig {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| {
        instance["spec"]["nodeUpdateStrategy"] = json!("Draining");
        instance["spec"]["storageClassTemplates"] = json!([]);
    })
    .await;
    rig
}

#[tokio::test]
async fn a_driver_is_not_removed_while_something_is_mounted() {
    let mut rig = deployed().await;
    let (sidecar, pods) = driver_pod(&rig).await;
    sidecar.mount(&["plugins/a/globalmount", "plugins/b/globalmount"]);
    rig.delete().await;
    rig.reconcile("hostpath").await;
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "InUse");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains(": 2 mounts (2 on node n);"), "{message}");
    assert!(!rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());

    sidecar.mount(&[]);
    rig.reconcile("hostpath").await;
    assert!(rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(pods::NAME, &at_once).await.unwrap();
    rig.sync().await;
    assert!(rig.instance().await.is_null());
}

#[tokio::test]
async fn a_driver_keeps_its_name_while_something_is_mounted_and_a_lost_node_holds_nothing() {
    let mut rig = deployed().await;
    let (sidecar, _) = driver_pod(&rig).await;
    sidecar.mount(&["plugins/a/globalmount"]);
    let (old, new) = (
        format!("{}.example", rig.namespace),
        format!("{}.renamed", rig.namespace),
    );
    rig.edit(json!({"spec": {"driverName": new}})).await;
    rig.reconcile("hostpath").await;
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "InUse");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains(": 1 mount (1 on node n);"), "{message}");
    assert!(!rig.get(Kind::CsiDriver, &old).await.is_null());

    sidecar.stop();
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    assert!(rig.get(Kind::CsiDriver, &old).await.is_null());
}

#[tokio::test]
async fn an_instance_that_cannot_be_read_goes_as_carefully_as_any_other() {
    let mut rig = Rig::new().await;
    let (node, taint) = (
        format!("{}-new", rig.namespace),
        format!("startup.example/{}", rig.namespace),
    );
    rig.deploy(|instance| {
        let spec = &mut instance["spec"];
        spec["nodeUpdateStrategy"] = json!("Draining");
        spec["startupTaint"] = json!(taint);
        spec["storageClassTemplates"] = json!([]);
    })
    .await;
    let nodes = resource("", "v1", "Node", "nodes");
    let nodes = Api::<DynamicObject>::all_with(rig.client.clone(), &nodes);
    let taints = json!([{"key": taint, "effect": "NoSchedule"}]);
    let new = json!({"metadata": {"name": node}, "spec": {"taints": taints}});
    let new = serde_json::from_value(new).unwrap();
    nodes.create(&PostParams::default(), &new).await.unwrap();
    let waits = async || {
        nodes
            .get(&node)
            .await
            .unwrap()
            .data
            .to_string()
            .contains(&taint)
    };
    let (sidecar, pods) = driver_pod(&rig).await;
    sidecar.mount(&["plugins/a/globalmount"]);
    rig.delete().await;
    let unreadable = rig.unreadable("hostpath").await;
    rig.reconcile_seen(unreadable.clone()).await;
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "InUse", "{told}");
    assert!(waits().await, "it has no driver yet");

    sidecar.mount(&[]);
    rig.reconcile_seen(unreadable.clone()).await;
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(pods::NAME, &at_once).await.unwrap();
    rig.reconcile_seen(unreadable).await;
    assert!(rig.instance().await.is_null());
    assert!(!waits().await, "nobody else would remove it");
}
