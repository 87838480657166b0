//! `nodeUpdateStrategy: Draining`, where something gets in its way: no node stays tainted for ever.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use stowage_operator::uninstall;

use crate::reconcile::draining::{
    change_template, finish, look_again, stopped, until, until_waiting,
};
use crate::reconcile::faults::{Faults, Mode};
use crate::reconcile::fleet::Fleet;
use crate::reconcile::rig::{
    Rig, client_as, client_of, condition_of, example, own_server, resource,
};
use crate::reconcile::running::{eventually, instances};

/// An update that has tainted its first node, where a pod holds it.
pub(crate) async fn held_up(rig: &mut Rig, change: impl FnOnce(&mut Value)) -> Fleet {
    let mut fleet = Fleet::deploy(rig, 2, change).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    let hold = json!({"metadata": {"annotations": {"draining.stowage.dev/hold": "true"}}});
    let (pods, hold) = (fleet.pod_api(), Patch::Merge(hold));
    let patched = pods.patch("db-0", &PatchParams::default(), &hold).await;
    patched.unwrap();
    change_template(rig, &mut fleet).await;
    until_tainted(rig, &fleet).await;
    fleet
}

async fn until_tainted(rig: &mut Rig, fleet: &Fleet) {
    eventually("a node is tainted", async || {
        if !fleet.taints().await.is_empty() {
            return Some(());
        }
        rig.reconcile("hostpath").await;
        None
    })
    .await;
}

#[tokio::test]
async fn pods_of_daemon_sets_that_are_left_where_they_are_keep_their_attached_volumes() {
    let mut rig = Rig::new().await;
    let rules = json!({"settleSeconds": 0, "daemonSetPods": "Ignore"});
    let mut fleet = Fleet::deploy(&mut rig, 1, |it| it["nodeDrain"] = rules).await;
    let node = fleet.nodes[0].clone();
    fleet.user_of("DaemonSet", "agent", &node).await;
    fleet.user("db-0", &node).await;
    for volume in ["agent", "db-0"] {
        fleet.attach(volume, &node).await;
    }
    change_template(&mut rig, &mut fleet).await;
    // That of the pod which has left.
    let detached = format!(
        "1 volumes to be detached, the first is {}-db-0",
        rig.namespace
    );
    until_waiting(&mut rig, &fleet, &detached).await;
    look_again(&mut rig, &fleet).await;
    assert_eq!(fleet.driver_pods().await, [(node.clone(), "v1".to_owned())]);

    fleet.detach("db-0").await;
    until(&mut rig, &fleet, "the update is over", |it| {
        it["status"]["drain"].is_null()
    })
    .await;
    assert_eq!(fleet.driver_pods().await, [(node, "v2".to_owned())]);
    assert_eq!(fleet.taints().await, []);
    assert_eq!(fleet.users().await.len(), 1);
}

/// Waits until an eviction that is refused is told and has taken too long, while another node is updated.
async fn given_up(mut rig: Rig, words: &str) {
    let rules = json!({"settleSeconds": 0, "timeoutSeconds": 600});
    let mut fleet = Fleet::deploy(&mut rig, 2, |it| {
        it["nodeDrain"] = rules;
        it["maxUnavailableNodes"] = json!(2);
    })
    .await;
    let [first, second] = [fleet.nodes[0].clone(), fleet.nodes[1].clone()];
    fleet.user("db-0", &first).await;
    change_template(&mut rig, &mut fleet).await;
    until(&mut rig, &fleet, "only the refusal is left", |it| {
        let drain = &it["status"]["drain"];
        let is_last = drain["progress"] == "1/2" && drain["nodes"][1].is_null();
        let told = drain["nodes"][0]["waitingFor"].as_str().unwrap_or_default();
        is_last && told.contains("/db-0: ") && told.contains(words)
    })
    .await;
    rig.clock.advance(Duration::from_secs(600));
    let stopped = stopped(&mut rig, &fleet).await;
    assert_eq!(stopped["node"], json!(first), "{stopped}");
    assert!(
        stopped["reason"].as_str().unwrap().contains(words),
        "{stopped}"
    );
    assert_eq!(fleet.taints().await, []);
    let pods = fleet.driver_pods().await;
    assert!(pods.contains(&(second, "v2".to_owned())), "{pods:?}");
    assert!(pods.contains(&(first, "v1".to_owned())), "{pods:?}");
}

#[tokio::test]
async fn an_eviction_that_a_policy_refuses_is_told_and_waited_for_no_longer_than_anything_else() {
    let rig = Rig::new().await;
    let end = "/pods/db-0/eviction";
    rig.faults.refuse("POST", end, "/pods/other/eviction");
    given_up(rig, "does not match").await;
}

#[tokio::test]
async fn an_eviction_without_the_right_to_it_is_told_and_waited_for_no_longer_than_anything_else() {
    let rig = Rig::with_evictions(client_as("nobody").await).await;
    given_up(rig, "deploy/draining.yaml").await;
}

#[tokio::test]
async fn an_instance_that_is_let_go_lets_its_nodes_go() {
    for deleted in [true, false] {
        let mut rig = Rig::new().await;
        let fleet = held_up(&mut rig, |_| ()).await;
        rig.edit(json!({"spec": {"managementState": "Unmanaged"}}))
            .await;
        if deleted {
            rig.delete().await;
        }
        rig.sync().await;
        assert_eq!(fleet.taints().await, [], "deleted: {deleted}");
        assert_eq!(rig.instance().await["status"]["drain"], json!(null));
    }
}

#[tokio::test]
async fn an_instance_that_becomes_wrong_lets_its_nodes_go_until_it_is_right_again() {
    let mut rig = Rig::new().await;
    let fleet = held_up(&mut rig, |_| ()).await;
    let socket = rig.instance().await["spec"]["driverSocket"].clone();
    rig.edit(json!({"spec": {"driverSocket": "/csi.sock"}}))
        .await;
    rig.sync().await;
    assert_eq!(fleet.taints().await, []);
    rig.edit(json!({"spec": {"driverSocket": socket}})).await;
    until_tainted(&mut rig, &fleet).await;
}

#[tokio::test]
async fn an_instance_that_can_no_longer_be_read_lets_its_nodes_go() {
    let mut rig = Rig::new().await;
    let fleet = held_up(&mut rig, |_| ()).await;
    let unreadable = rig.unreadable("hostpath").await;
    let action = rig.reconcile_seen(unreadable.clone()).await;
    assert_eq!(action, Action::await_change(), "a person has to act");
    assert_eq!(fleet.taints().await, []);
    let instance = rig.instance().await;
    assert_eq!(instance["status"]["drain"], json!(null));
    assert_eq!(
        condition_of(&instance, "SyncSuccessful")["reason"],
        "Unreadable"
    );
    assert_eq!(condition_of(&instance, "Progressing"), json!(null));
    // Nothing is left to do, and nothing is sent.
    rig.faults.start(Mode::Off);
    rig.reconcile_seen(unreadable).await;
    assert_eq!(rig.faults.writes(), Vec::<String>::new());
    // It can be read again.
    until_tainted(&mut rig, &fleet).await;
}

#[tokio::test]
async fn an_instance_whose_nodes_cannot_be_let_go_says_so_and_remembers_them() {
    let mut rig = Rig::new().await;
    let fleet = held_up(&mut rig, |_| ()).await;
    let tainted = fleet.taints().await;
    let unreadable = rig.unreadable("hostpath").await;
    let node = format!("/nodes/{}", fleet.nodes[0]);
    rig.faults.refuse("PATCH", &node, "/nodes");
    let action = rig.reconcile_seen(unreadable.clone()).await;
    assert_ne!(action, Action::await_change(), "it is tried again");
    assert_eq!(fleet.taints().await, tainted);
    let instance = rig.instance().await;
    let told = condition_of(&instance, "SyncSuccessful")["message"].to_string();
    assert!(told.contains("cannot empty nodes"), "{told}");
    assert_eq!(
        instance["status"]["drain"]["nodes"][0]["name"],
        json!(fleet.nodes[0])
    );

    rig.faults.start(Mode::Off);
    rig.reconcile_seen(unreadable).await;
    assert_eq!(fleet.taints().await, []);
}

#[tokio::test]
async fn a_broken_key_lets_nodes_go_until_somebody_mends_it() {
    let mut rig = Rig::new().await;
    let mut fleet = held_up(&mut rig, |_| ()).await;
    let secrets = resource("", "v1", "Secret", "secrets");
    let secrets =
        Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &secrets);
    let name = "csi-operator-mounts-key";
    let broken = Patch::Merge(json!({"data": {"key": null}}));
    let params = PatchParams::default();
    secrets.patch(name, &params, &broken).await.unwrap();
    // One that runs has read it.
    let mut rig = rig.restarted().await;
    let action = rig.reconcile("hostpath").await;
    assert_ne!(action, Action::await_change(), "nobody watches the key");
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "Invalid", "{told}");
    assert_eq!(fleet.taints().await, []);
    assert_eq!(rig.instance().await["status"]["drain"], json!(null));

    let deletion = DeleteParams::default();
    secrets.delete(name, &deletion).await.unwrap();
    rig.reconcile("hostpath").await;
    fleet.new_revision().await;
    until_tainted(&mut rig, &fleet).await;
}

#[tokio::test]
async fn an_operator_that_is_gone_for_good_leaves_no_taint() {
    // Everything in a cluster is let go, so it has one of its own.
    let server = own_server();
    let client = client_of(&server, &Faults::default()).await;
    let instances = instances(&client);
    let nothing = PostParams::default();
    let mut instance = example("default");
    instance["metadata"]["finalizers"] = json!(["csidriver.storage.openshift.io"]);
    let instance = serde_json::from_value(instance).unwrap();
    let uid = instances.create(&nothing, &instance).await.unwrap().uid();
    let node = json!({"name": "n", "since": "2026-01-01T00:00:00Z"});
    let status =
        json!({"driverName": "default.example", "drain": {"progress": "0/1", "nodes": [node]}});
    let status = Patch::Merge(json!({ "status": status }));
    let params = PatchParams::default();
    let written = instances.patch_status("hostpath", &params, &status).await;
    written.unwrap();
    let taint =
        |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let taints = [
        taint("draining.stowage.dev/default.example", &uid.unwrap()),
        taint("draining.stowage.dev/other.example", "another"),
    ];
    let nodes = resource("", "v1", "Node", "nodes");
    let nodes = Api::<DynamicObject>::all_with(client.clone(), &nodes);
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&nothing, &node).await.unwrap();

    let released = uninstall::let_go(&client).await.unwrap();
    assert_eq!(released, ["CSIDriverDeployment default/hostpath"]);
    let left = nodes.get("n").await.unwrap().data["spec"]["taints"].clone();
    let left: Vec<_> = left
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["key"].clone())
        .collect();
    assert!(!left.contains(&taints[0]["key"]), "{left:?}");
    assert!(left.contains(&taints[1]["key"]), "{left:?}");
    let instance = instances.get("hostpath").await.unwrap();
    assert_eq!(instance.finalizers(), [""; 0]);
}

#[tokio::test]
async fn a_driver_that_gets_another_name_in_the_middle_leaves_no_taint_of_the_old_one() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 1, |it| {
        it["storageClassTemplates"] = json!([]);
        it["nodeDrain"] = json!({"settleSeconds": 600});
    })
    .await;
    change_template(&mut rig, &mut fleet).await;
    until_tainted(&mut rig, &fleet).await;

    let renamed = format!("{}.renamed", rig.namespace);
    let spec = json!({"driverName": renamed, "nodeDrain": {"settleSeconds": 0}});
    rig.edit(json!({ "spec": spec })).await;
    let csi_nodes = resource("storage.k8s.io", "v1", "CSINode", "csinodes");
    let csi_nodes = Api::<DynamicObject>::all_with(rig.client.clone(), &csi_nodes);
    let drivers = json!([{"name": renamed, "nodeID": "n"}]);
    let known = Patch::Merge(json!({"spec": {"drivers": drivers}}));
    let node = fleet.nodes[0].clone();
    let known = csi_nodes
        .patch(&node, &PatchParams::default(), &known)
        .await;
    known.unwrap();
    rig.reconcile("hostpath").await;
    fleet.new_revision().await;
    finish(&mut rig, &fleet, 1).await;
    assert_eq!(fleet.driver_pods().await, [(node, "v3".to_owned())]);
    assert_eq!(fleet.taints().await, []);
}

#[tokio::test]
async fn a_new_driver_pod_has_as_long_as_it_took_to_empty_its_node() {
    let mut rig = Rig::new().await;
    let rules = json!({"settleSeconds": 0, "timeoutSeconds": 600});
    let mut fleet = Fleet::deploy(&mut rig, 1, |it| it["nodeDrain"] = rules).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    fleet.attach("db-0", &node).await;
    change_template(&mut rig, &mut fleet).await;
    // It is empty late.
    until_waiting(&mut rig, &fleet, "to be detached").await;
    rig.clock.advance(Duration::from_secs(400));
    fleet.detach("db-0").await;
    until_waiting(&mut rig, &fleet, "its new driver pod").await;
    // Its driver pod is deleted, and the time for emptying it is over.
    rig.clock.advance(Duration::from_secs(400));
    rig.reconcile("hostpath").await;
    let drain = rig.instance().await["status"]["drain"].clone();
    assert_eq!(drain["stopped"], json!(null), "{drain:#}");
    assert_eq!(fleet.taints().await.len(), 1, "no pod may come");
    finish(&mut rig, &fleet, 1).await;
}

#[tokio::test]
async fn a_driver_pod_that_never_gets_ready_stops_the_update_and_costs_no_second_node() {
    let mut rig = Rig::new().await;
    let rules = json!({"settleSeconds": 0, "timeoutSeconds": 600});
    let mut fleet = Fleet::deploy(&mut rig, 2, |it| it["nodeDrain"] = rules).await;
    let [first, second] = [fleet.nodes[0].clone(), fleet.nodes[1].clone()];
    fleet.report(&first, false).await;
    fleet.breaks = true;
    change_template(&mut rig, &mut fleet).await;
    let waits = "its new driver pod to be ready";
    until_waiting(&mut rig, &fleet, waits).await;
    rig.clock.advance(Duration::from_secs(600));
    let stopped = stopped(&mut rig, &fleet).await;
    assert_eq!(stopped["node"], json!(second));
    let reason = stopped["reason"].as_str().unwrap();
    assert!(reason.contains(waits), "{reason}");
    assert_eq!(fleet.taints().await, []);

    // The next attempt begins where the driver is missing anyway.
    fleet.report(&first, true).await;
    fleet.breaks = false;
    let field = "/spec/driverPerNodeTemplate/spec/terminationGracePeriodSeconds";
    let change = json!([{"op": "add", "path": field, "value": 8}]);
    let change: Patch<()> = Patch::Json(serde_json::from_value(change).unwrap());
    let (instances, params) = (rig.instances(), PatchParams::default());
    let changed = instances.patch("hostpath", &params, &change).await;
    changed.unwrap();
    rig.reconcile("hostpath").await;
    fleet.new_revision().await;
    until_tainted(&mut rig, &fleet).await;
    assert_eq!(fleet.taints().await[0].0, second);
    finish(&mut rig, &fleet, 1).await;
}

#[tokio::test]
async fn a_taint_that_somebody_took_away_is_set_again_and_a_cordon_is_left_alone() {
    let mut rig = Rig::new().await;
    let fleet = held_up(&mut rig, |_| ()).await;
    let ours = fleet.taints().await;
    let node = fleet.nodes[0].clone();
    let (nodes, params) = (fleet.node_api(), PatchParams::default());
    let meddling = Patch::Merge(json!({"spec": {"taints": null, "unschedulable": true}}));
    nodes.patch(&node, &params, &meddling).await.unwrap();
    assert_eq!(fleet.taints().await, []);
    until_tainted(&mut rig, &fleet).await;
    assert_eq!(fleet.taints().await, ours);

    let gone = DeleteParams::default().grace_period(0);
    fleet.pod_api().delete("db-0", &gone).await.unwrap();
    finish(&mut rig, &fleet, 1).await;
    assert_eq!(fleet.taints().await, []);
    let spec = fleet.node(&node).await["spec"].clone();
    assert_eq!(
        spec["unschedulable"], true,
        "that switch is somebody else's"
    );
}

#[tokio::test]
async fn a_taint_of_the_same_key_that_is_somebody_elses_is_named_and_stays() {
    let mut rig = Rig::new().await;
    let rules = json!({"settleSeconds": 0, "timeoutSeconds": 600});
    let mut fleet = Fleet::deploy(&mut rig, 1, |it| it["nodeDrain"] = rules).await;
    let node = fleet.nodes[0].clone();
    let key = format!("draining.stowage.dev/{}.example", rig.namespace);
    let taint = json!({"key": key, "value": "theirs", "effect": "NoSchedule"});
    let theirs = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    let (nodes, params) = (fleet.node_api(), PatchParams::default());
    nodes.patch(&node, &params, &theirs).await.unwrap();
    change_template(&mut rig, &mut fleet).await;
    until_waiting(
        &mut rig,
        &fleet,
        "a taint of the same key is somebody else's",
    )
    .await;
    assert_eq!(fleet.driver_pods().await[0].1, "v1");
    // It does not wait for ever, and it is not ours to remove.
    rig.clock.advance(Duration::from_secs(600));
    let stopped = stopped(&mut rig, &fleet).await;
    assert!(
        stopped["reason"]
            .as_str()
            .unwrap()
            .contains("somebody else's")
    );
    let left = fleet.node(&node).await["spec"]["taints"].to_string();
    assert!(left.contains("theirs"), "{left}");
    rig.delete().await;
    rig.reconcile("hostpath").await;
    let left = fleet.node(&node).await["spec"]["taints"].to_string();
    assert!(left.contains("theirs"), "{left}");
}

#[tokio::test]
async fn sidecars_of_others_cannot_tell_what_is_mounted_and_that_is_said() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 1, |it| {
        it["sidecars"] = json!({"mode": "Upstream"});
        it["nodeDrain"] = json!({"settleSeconds": 600});
    })
    .await;
    change_template(&mut rig, &mut fleet).await;
    until_waiting(&mut rig, &fleet, "of which nobody there can tell").await;
    let node = rig.instance().await["status"]["drain"]["nodes"][0].clone();
    let mounts = node["mounts"].as_str().unwrap();
    assert!(mounts.starts_with("unverified: "), "{mounts}");
    // It has settled when nothing has used the driver for a while.
    rig.clock.advance(Duration::from_secs(600));
    finish(&mut rig, &fleet, 1).await;
}

#[tokio::test]
async fn a_look_asks_for_neither_all_driver_pods_nor_all_templates() {
    let mut rig = Rig::new().await;
    let _fleet = held_up(&mut rig, |_| ()).await;
    rig.faults.start(Mode::Off);
    for _ in 0..3 {
        rig.reconcile("hostpath").await;
    }
    assert!(!rig.faults.sent("spec.nodeName").is_empty(), "it did look");
    assert_eq!(rig.faults.sent("controllerrevisions"), Vec::<String>::new());
    let mut lists = rig.faults.sent("daemonset%3Dhostpath-node");
    lists.retain(|it| !it.contains("watch=true"));
    assert_eq!(lists, Vec::<String>::new());
    let mut attachments = rig.faults.sent("volumeattachments");
    attachments.retain(|it| !it.contains("watch=true"));
    assert_eq!(attachments, Vec::<String>::new());
}

#[tokio::test]
async fn an_update_waits_while_a_driver_pod_is_not_ready_and_says_why_no_node_is_begun_with() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 2, |_| ()).await;
    let [first, second] = [fleet.nodes[0].clone(), fleet.nodes[1].clone()];
    fleet.report(&second, false).await;
    change_template(&mut rig, &mut fleet).await;
    until(&mut rig, &fleet, "the first node is updated", |it| {
        let drain = &it["status"]["drain"];
        drain["progress"] == "1/2" && drain["nodes"][0].is_null()
    })
    .await;
    fleet.ready(&first, false).await;
    fleet.report(&second, true).await;
    let told = |instance: &Value| condition_of(instance, "Progressing")["message"].to_string();
    let what = "No further node is begun with";
    let instance = until(&mut rig, &fleet, what, |it| told(it).contains(what)).await;
    let message = told(&instance);
    assert!(message.contains("not ready on 1 nodes"), "{message}");
    assert_eq!(fleet.taints().await, []);
    // Where nobody is, nobody misses the driver.
    fleet.report(&first, false).await;
    until_tainted(&mut rig, &fleet).await;
    assert_eq!(fleet.taints().await[0].0, second);
    fleet.ready(&first, true).await;
    finish(&mut rig, &fleet, 1).await;
}
