//! `nodeUpdateStrategy: Draining`: who uses the driver on a node, and what nobody is there to be moved for.

use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::controller::Action;
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::draining::{change_template, stopped, until, until_waiting};
use crate::reconcile::draining_trouble::held_up;
use crate::reconcile::fleet::Fleet;
use crate::reconcile::in_use::volume;
use crate::reconcile::rig::{Rig, condition_of, resource};

#[tokio::test]
async fn a_pod_that_only_the_server_sees_keeps_its_driver_and_is_waited_for_no_longer_than_anything_else()
 {
    let mut rig = Rig::new().await;
    let rules = json!({"settleSeconds": 0, "timeoutSeconds": 600});
    let mut fleet = Fleet::deploy(&mut rig, 1, |it| it["nodeDrain"] = rules).await;
    let node = fleet.nodes[0].clone();
    // Its claim has the volume, and the volume does not say so.
    volume(&rig, "db-0").await;
    let claims = resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    let claims = Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &claims);
    let claim = json!({
        "metadata": {"name": "db-0"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "",
            "volumeName": format!("{}-db-0", rig.namespace),
        },
    });
    let claim = serde_json::from_value(claim).unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap();
    fleet.start_user("StatefulSet", "db-0", &node).await;
    change_template(&mut rig, &mut fleet).await;

    until_waiting(&mut rig, &fleet, "/db-0 to leave").await;
    rig.clock.advance(Duration::from_secs(600));
    let stopped = stopped(&mut rig, &fleet).await;
    let told = format!("waited in vain for {}/db-0 to leave", rig.namespace);
    assert_eq!(stopped["reason"], json!(told));
    assert_eq!(fleet.taints().await, []);
    assert_eq!(fleet.driver_pods().await, [(node, "v1".to_owned())]);
}

#[tokio::test]
async fn nodes_that_are_not_ready_are_seldom_asked_for() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 1, |_| ()).await;
    let node = fleet.nodes[0].clone();
    fleet.report(&node, false).await;
    change_template(&mut rig, &mut fleet).await;
    let told = format!("Node {node} is not ready");
    until(&mut rig, &fleet, &told, |it| {
        let message = condition_of(it, "Progressing")["message"].to_string();
        message.contains(&told)
    })
    .await;
    let pause = rig.reconcile("hostpath").await;
    assert_eq!(pause, Action::requeue(Duration::from_secs(60)));
    fleet.report(&node, true).await;
    rig.reconcile("hostpath").await;
    let drain = rig.instance().await["status"]["drain"].clone();
    assert_eq!(drain["nodes"][0]["name"], json!(node));
}

#[tokio::test]
async fn an_update_whose_workload_is_gone_lets_its_nodes_go() {
    let mut rig = Rig::new().await;
    let fleet = held_up(&mut rig, |_| ()).await;
    rig.faults.refuse("POST", "/daemonsets", "/deployments");
    let (sets, deletion) = (rig.api(Kind::DaemonSet), DeleteParams::default());
    sets.delete("hostpath-node", &deletion).await.unwrap();
    rig.reconcile("hostpath").await;
    assert!(rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    assert_eq!(fleet.taints().await, []);
    assert_eq!(rig.instance().await["status"]["drain"], json!(null));
}
