//! `nodeUpdateStrategy: Draining`.

use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::faults::Mode;
use crate::reconcile::fleet::Fleet;
use crate::reconcile::rig::{PATIENCE, Rig, example, resource};
use crate::reconcile::running::{Running, eventually, instances, synced};

/// A change of the driver's pod.
fn other_template() -> Patch<()> {
    let field = "/spec/driverPerNodeTemplate/spec/terminationGracePeriodSeconds";
    let change = json!([{"op": "add", "path": field, "value": 7}]);
    Patch::Json(serde_json::from_value(change).unwrap())
}

/// The driver's pod changes: an update begins.
pub(crate) async fn change_template(rig: &mut Rig, fleet: &mut Fleet) {
    let (instances, nothing) = (rig.instances(), PatchParams::default());
    let changed = other_template();
    instances
        .patch("hostpath", &nothing, &changed)
        .await
        .unwrap();
    rig.reconcile("hostpath").await;
    fleet.new_revision().await;
}

fn waiting_for(instance: &Value) -> &str {
    let node = &instance["status"]["drain"]["nodes"][0];
    node["waitingFor"].as_str().unwrap_or_default()
}

/// Goes on until the update is over; what must hold at every moment is looked at all the time.
pub(crate) async fn finish(rig: &mut Rig, fleet: &Fleet, at_a_time: usize) {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        let before = fleet.driver_pods().await;
        let there = fleet.users().await;
        rig.reconcile("hostpath").await;
        let after = fleet.driver_pods().await;
        for (node, _) in before.iter().filter(|it| !after.contains(it)) {
            let user = there.iter().find(|(_, on)| on == node);
            assert_eq!(user, None, "the driver was taken from under a pod");
        }
        assert!(fleet.taints().await.len() <= at_a_time);
        fleet.play().await;
        if rig.instance().await["status"]["drain"].is_null()
            && fleet
                .driver_pods()
                .await
                .iter()
                .all(|(_, hash)| *hash == fleet.hash())
        {
            return;
        }
    }
    panic!("not over: {:#}", rig.instance().await["status"]);
}

/// Goes on until the instance is so, and no further.
pub(crate) async fn until(
    rig: &mut Rig,
    fleet: &Fleet,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    let give_up = Instant::now() + PATIENCE;
    loop {
        rig.reconcile("hostpath").await;
        let instance = rig.instance().await;
        if is_so(&instance) {
            return instance;
        }
        let status = &instance["status"];
        assert!(Instant::now() < give_up, "never: {what}: {status:#}");
        fleet.play().await;
        // What is watched comes when it comes.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Looks a few more times: what holds a node goes on to hold it.
pub(crate) async fn look_again(rig: &mut Rig, fleet: &Fleet) {
    for _ in 0..5 {
        rig.reconcile("hostpath").await;
        fleet.play().await;
    }
}

/// Goes on until the first node waits for this.
pub(crate) async fn until_waiting(rig: &mut Rig, fleet: &Fleet, what: &str) -> Value {
    let what_for = format!("a node waits for {what}");
    until(rig, fleet, &what_for, |it| waiting_for(it).contains(what)).await
}

/// Goes on until the update stops; why it did.
pub(crate) async fn stopped(rig: &mut Rig, fleet: &Fleet) -> Value {
    let stopped = |it: &Value| it["status"]["drain"]["stopped"].clone();
    let is_stopped = |it: &Value| !stopped(it).is_null();
    stopped(&until(rig, fleet, "the update stops", is_stopped).await)
}

#[tokio::test]
async fn nodes_are_emptied_one_after_the_other_before_their_driver_is_replaced() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 3, |_| ()).await;
    assert_eq!(rig.condition("Progressing").await["reason"], "Complete");
    for (number, node) in fleet.nodes.clone().iter().enumerate() {
        fleet.user(&format!("db-{number}"), node).await;
    }
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete");
    change_template(&mut rig, &mut fleet).await;
    rig.reconcile("hostpath").await;
    // It is written down where a taint may be, before there is one.
    assert_eq!(rig.instance().await["status"]["drain"]["progress"], "0/3");
    assert_eq!(fleet.taints().await, []);
    rig.reconcile("hostpath").await;
    let key = "draining.stowage.dev/DRIVER".to_owned();
    assert_eq!(fleet.taints().await, [(fleet.nodes[0].clone(), key)]);
    assert_eq!(rig.condition("Progressing").await["reason"], "Draining");

    finish(&mut rig, &fleet, 1).await;
    assert_eq!(
        (fleet.taints().await, fleet.users().await),
        (vec![], vec![])
    );
    assert_eq!(rig.condition("Progressing").await["reason"], "Complete");
    let events = rig.events().await.join("\n");
    for word in ["NodeDraining", "NodeUpdated"] {
        assert_eq!(events.matches(word).count(), 3, "{events}");
    }
    // Nothing is left to do, and nothing is sent.
    rig.make_ready(3).await;
    rig.sync().await;
    rig.faults.start(Mode::Off);
    rig.sync().await;
    assert_eq!(rig.faults.writes(), Vec::<String>::new());
    assert_eq!(rig.faults.sent("controllerrevisions"), Vec::<String>::new());
}

#[tokio::test]
async fn a_budget_that_admits_no_eviction_holds_a_node_and_is_named() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 1, |_| ()).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    let budget = json!({"metadata": {"name": "db"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}});
    let budgets = rig.api(Kind::PodDisruptionBudget);
    let budget = serde_json::from_value(budget).unwrap();
    budgets
        .create(&PostParams::default(), &budget)
        .await
        .unwrap();
    let counts = |allowed: u8| json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
    rig.patch_status(Kind::PodDisruptionBudget, "db", counts(0))
        .await;
    change_template(&mut rig, &mut fleet).await;
    let told = "/db-0: its budget allows no disruption";
    until_waiting(&mut rig, &fleet, told).await;
    look_again(&mut rig, &fleet).await;
    assert_eq!(fleet.users().await.len(), 1);
    assert_eq!(fleet.driver_pods().await[0].1, "v1");
    let events = rig.events().await;
    let is_told = |it: &String| it.starts_with("NodeWaiting ") && it.contains(told);
    assert!(events.iter().any(is_told), "{events:#?}");

    rig.patch_status(Kind::PodDisruptionBudget, "db", counts(1))
        .await;
    finish(&mut rig, &fleet, 1).await;
    assert_eq!(fleet.taints().await, []);
}

#[tokio::test]
async fn a_mount_holds_a_node_and_is_named_and_where_it_is_seen_nothing_else_is_waited_for() {
    let mut rig = Rig::new().await;
    // Longer than the test takes.
    let rules = json!({"settleSeconds": 600});
    let (mut fleet, sidecar) = Fleet::deploy_telling(&mut rig, |it| it["nodeDrain"] = rules).await;
    sidecar.mount(&["plugins/a/globalmount", "plugins/b/globalmount"]);
    change_template(&mut rig, &mut fleet).await;
    let told = "2 mounts to go, the first is plugins/a/globalmount";
    until_waiting(&mut rig, &fleet, told).await;
    look_again(&mut rig, &fleet).await;
    let instance = rig.instance().await;
    assert_eq!(waiting_for(&instance), told);
    assert_eq!(instance["status"]["drain"]["nodes"][0]["mounts"], "2");
    let message = rig.condition("Progressing").await["message"].to_string();
    assert!(message.contains(told), "{message}");
    assert_eq!(fleet.driver_pods().await[0].1, "v1");
    assert_eq!(fleet.taints().await.len(), 1, "no pod may come");

    sidecar.mount(&[]);
    finish(&mut rig, &fleet, 1).await;
    assert_eq!(fleet.driver_pods().await[0].1, "v2");
    assert_eq!(fleet.taints().await, []);
}

#[tokio::test]
async fn an_operator_that_dies_at_any_request_is_followed_by_one_that_goes_on() {
    for mode in [Mode::Before, Mode::After] {
        let mut rig = Rig::new().await;
        let mut fleet = Fleet::deploy(&mut rig, 2, |_| ()).await;
        for (number, node) in fleet.nodes.clone().iter().enumerate() {
            fleet.user(&format!("db-{number}"), node).await;
        }
        change_template(&mut rig, &mut fleet).await;
        rig.faults.start(mode);
        for _ in 0..150 {
            rig.faults.set(Mode::Off);
            rig = rig.restarted_among_faults().await;
            rig.faults.set(mode);
            rig.reconcile("hostpath").await;
            assert!(fleet.taints().await.len() <= 1);
            fleet.play().await;
            if fleet
                .driver_pods()
                .await
                .iter()
                .all(|(_, hash)| hash == "v2")
            {
                break;
            }
        }
        rig.faults.set(Mode::Off);
        finish(&mut rig, &fleet, 1).await;
        assert_eq!(
            (fleet.taints().await, fleet.users().await),
            (vec![], vec![])
        );
        // It did die, at every step.
        let failed = rig.faults.failed();
        for (method, part) in [
            ("GET", "spec.nodeName"),
            ("PATCH", "/nodes/"),
            ("POST", "/pods/db-0/eviction"),
            ("POST", "/pods/db-1/eviction"),
            ("DELETE", "/pods/"),
            ("PATCH", "/csidriverdeployments/hostpath/status"),
        ] {
            let is_it = |it: &String| it.starts_with(method) && it.contains(part);
            assert!(failed.iter().any(is_it), "{method} {part}: {failed:#?}");
        }
    }
}

#[tokio::test]
async fn a_pod_that_has_taken_the_place_of_another_is_not_evicted_for_it() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 1, |_| ()).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    change_template(&mut rig, &mut fleet).await;
    let (pods, door) = (fleet.pod_api(), rig.faults.hold("/pods/db-0/eviction"));
    let update = async {
        while !door.is_open() {
            rig.reconcile("hostpath").await;
        }
    };
    // Its eviction is on the way when it goes, and another comes that has its name.
    let meanwhile = async {
        door.until_reached().await;
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete("db-0", &at_once).await.unwrap();
        fleet.start_user("StatefulSet", "db-0", &node).await;
        door.open();
    };
    tokio::join!(update, meanwhile);
    let metadata = pods.get("db-0").await.unwrap().metadata;
    assert_eq!(metadata.deletion_timestamp, None);
    // It is evicted in its own right.
    finish(&mut rig, &fleet, 1).await;
    assert_eq!(fleet.users().await, []);
}

#[tokio::test]
async fn a_node_that_takes_too_long_stops_the_update_and_gets_its_pods_back() {
    let mut rig = Rig::new().await;
    let spec = json!({"settleSeconds": 0, "timeoutSeconds": 600});
    let mut fleet = Fleet::deploy(&mut rig, 2, |it| it["nodeDrain"] = spec).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    let hold = json!({"metadata": {"annotations": {"draining.stowage.dev/hold": "true"}}});
    let pods = fleet.pod_api();
    let hold = Patch::Merge(hold);
    pods.patch("db-0", &PatchParams::default(), &hold)
        .await
        .unwrap();
    change_template(&mut rig, &mut fleet).await;
    until_waiting(&mut rig, &fleet, "db-0: its annotation").await;
    rig.clock.advance(Duration::from_secs(600));
    let stopped = stopped(&mut rig, &fleet).await;
    assert_eq!(stopped["node"], json!(node));
    assert!(
        stopped["reason"]
            .as_str()
            .unwrap()
            .contains("db-0: its annotation"),
        "{stopped}"
    );
    assert_eq!(rig.condition("Progressing").await["reason"], "DrainStopped");
    let events = rig.events().await;
    let is_told = |it: &String| {
        it.starts_with("UpdateStopped ")
            && it.contains(&node)
            && it.contains("db-0: its annotation")
    };
    assert!(events.iter().any(is_told), "{events:#?}");
    for _ in 0..3 {
        rig.reconcile("hostpath").await;
    }
    assert_eq!(fleet.taints().await, [], "no other node was begun with");

    pods.delete("db-0", &DeleteParams::default()).await.unwrap();
    fleet.play().await;
    rig.edit(json!({"spec": {"nodeDrain": {"timeoutSeconds": 1200}}}))
        .await;
    finish(&mut rig, &fleet, 1).await;
}

#[tokio::test]
async fn an_update_is_paused_and_goes_on_and_another_strategy_lets_nodes_go() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 2, |_| ()).await;
    let node = fleet.nodes[0].clone();
    // Somebody else's taint stays, whatever happens.
    let foreign =
        json!({"spec": {"taints": [{"key": "example.com/mine", "effect": "NoSchedule"}]}});
    let foreign = Patch::Merge(foreign);
    let nodes = fleet.node_api();
    nodes
        .patch(&node, &PatchParams::default(), &foreign)
        .await
        .unwrap();
    fleet.user("db-0", &node).await;
    change_template(&mut rig, &mut fleet).await;
    for (edit, reason) in [
        (json!({"nodeDrain": {"paused": true}}), "DrainPaused"),
        (
            json!({"nodeUpdateStrategy": "OnDelete"}),
            "WaitingForDeletion",
        ),
    ] {
        rig.edit(json!({"spec": {"nodeDrain": {"paused": null}}}))
            .await;
        for _ in 0..100 {
            if fleet.taints().await.len() == 2 {
                break;
            }
            rig.reconcile("hostpath").await;
            fleet.count().await;
        }
        assert_eq!(fleet.taints().await.len(), 2);
        rig.edit(json!({"spec": edit})).await;
        for _ in 0..3 {
            rig.reconcile("hostpath").await;
            fleet.count().await;
        }
        assert_eq!(
            fleet.taints().await,
            [(node.clone(), "example.com/mine".to_owned())]
        );
        assert_eq!(rig.condition("Progressing").await["reason"], reason);
    }
    rig.edit(json!({"spec": {"nodeUpdateStrategy": "Draining"}}))
        .await;
    finish(&mut rig, &fleet, 2).await;
    assert_eq!(fleet.taints().await.len(), 1);
}

#[tokio::test]
async fn nodes_that_go_and_instances_that_go_leave_nothing_behind() {
    let mut rig = Rig::new().await;
    let mut fleet = Fleet::deploy(&mut rig, 2, |it| it["uninstallPolicy"] = json!("Force")).await;
    let [first, second] = [fleet.nodes[0].clone(), fleet.nodes[1].clone()];
    for (name, node) in [("db-0", &first), ("db-1", &second)] {
        fleet.user(name, node).await;
    }
    change_template(&mut rig, &mut fleet).await;
    for _ in 0..2 {
        rig.reconcile("hostpath").await;
    }
    assert_eq!(fleet.taints().await[0].0, first);
    let nodes = fleet.node_api();
    nodes
        .delete(&first, &DeleteParams::default())
        .await
        .unwrap();
    let pods = fleet.pod_api();
    let at_once = DeleteParams::default().grace_period(0);
    for pod in ["db-0", &format!("{first}-v1")] {
        pods.delete(pod, &at_once).await.unwrap();
    }
    fleet.nodes.remove(0);
    fleet.play().await;
    for _ in 0..3 {
        rig.reconcile("hostpath").await;
    }
    assert_eq!(fleet.taints().await[0].0, second);
    rig.delete().await;
    rig.reconcile("hostpath").await;
    assert_eq!(fleet.taints().await, []);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let mut rig = Rig::new().await;
    let mut instance = example(&rig.namespace);
    let spec = &mut instance["spec"];
    spec["nodeUpdateStrategy"] = json!("Draining");
    spec["nodeDrain"] = json!({"timeoutSeconds": 0, "barePods": "Kill"});
    let document = serde_json::from_value(instance).unwrap();
    let created = rig
        .instances()
        .create(&PostParams::default(), &document)
        .await;
    let refused = created.unwrap_err().to_string();
    for part in ["spec.nodeDrain.timeoutSeconds", "spec.nodeDrain.barePods"] {
        assert!(refused.contains(part), "{part} in {refused}");
    }

    rig.deploy(|instance| {
        let spec = &mut instance["spec"];
        spec["nodeUpdateStrategy"] = json!("Draining");
        spec["nodeDrain"] = json!({"pause": true});
    })
    .await;
    let told = rig.condition("SyncSuccessful").await["message"].to_string();
    let part = "spec.nodeDrain.pause: Forbidden: unknown field";
    assert!(told.contains(part), "{part} in {told}");
    // Nothing would ever happen, or everything at once.
    for limit in [
        json!("200%"),
        json!(0),
        json!("0%"),
        json!(-1),
        json!("some"),
    ] {
        rig.edit(json!({"spec": {"maxUnavailableNodes": limit}}))
            .await;
        rig.sync().await;
        let told = rig.condition("SyncSuccessful").await;
        let message = told["message"].as_str().unwrap();
        let part = format!("spec.maxUnavailableNodes: Invalid value: {limit}");
        assert!(message.contains(&part), "{part} in {message}");
        assert_eq!(told["reason"], "Invalid");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_operator_hears_that_a_pod_has_left_and_does_not_ask() {
    let running = Running::start().await;
    let (calm, seen) = (running.client.clone(), &running.requests);
    let mut instance = example("default");
    instance["spec"]["nodeUpdateStrategy"] = json!("Draining");
    instance["spec"]["nodeDrain"] = json!({"settleSeconds": 0});
    running.create(instance).await;
    let instances = instances(&calm);
    synced(&calm, "hostpath").await;
    let mut fleet = Fleet::join(calm.clone(), "default", 1).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    let nothing = PatchParams::default();
    let changed = instances
        .patch("hostpath", &nothing, &other_template())
        .await;
    let generation = changed.unwrap().metadata.generation;
    eventually("the DaemonSet is changed", async || {
        let status = instances.get("hostpath").await.unwrap().data["status"].clone();
        (status["observedGeneration"].as_i64() == generation).then_some(())
    })
    .await;
    fleet.new_revision().await;
    eventually("it waits for the pod", async || {
        let instance = serde_json::to_value(instances.get("hostpath").await.unwrap()).unwrap();
        waiting_for(&instance)
            .contains("db-0 to leave")
            .then_some(())
    })
    .await;
    // It is looked at now and then whether it takes too long, but not all the time.
    eventually("nobody asks for a while", async || {
        seen.start(Mode::Off);
        tokio::time::sleep(Duration::from_secs(3)).await;
        seen.sent("spec.nodeName").is_empty().then_some(())
    })
    .await;
    eventually("the update is over", async || {
        fleet.play().await;
        let is_new = fleet
            .driver_pods()
            .await
            .iter()
            .all(|(_, hash)| hash == "v2");
        let is_over = fleet.taints().await.is_empty();
        (is_new && is_over).then_some(())
    })
    .await;
    running.stop().await;
}

/// The key that node pods are given, as far as they are.
async fn key_hash(rig: &Rig) -> Option<String> {
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    let containers = set["spec"]["template"]["spec"]["containers"].as_array();
    let mut containers = containers.unwrap().iter();
    let sidecar = containers.find(|it| it["name"] == "csi-sidecar").unwrap();
    let mounts = sidecar["volumeMounts"].as_array().unwrap().iter();
    let mut args = sidecar["args"].as_array().unwrap().iter();
    let hash = args.find_map(|it| it.as_str()?.strip_prefix("--mounts-key-sha256="));
    let sees = mounts.filter(|it| it["mountPropagation"] == "HostToContainer");
    assert_eq!(sees.count(), usize::from(hash.is_some()));
    hash.map(str::to_owned)
}

#[tokio::test]
async fn nodes_are_asked_with_a_key_that_outlives_the_operator_and_is_nowhere_else() {
    let mut rig = Rig::new().await;
    let _fleet = Fleet::deploy(&mut rig, 1, |_| ()).await;
    let hash = key_hash(&rig).await.unwrap();
    let secrets = resource("", "v1", "Secret", "secrets");
    let secrets =
        Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &secrets);
    let secret = secrets.get("csi-operator-mounts-key").await.unwrap();
    let key = secret.data["data"]["key"].as_str().unwrap().to_owned();
    assert!(!rig.instance().await.to_string().contains(&key));

    let mut restarted = rig.restarted().await;
    restarted.sync().await;
    assert_eq!(key_hash(&rig).await.unwrap(), hash);
    // Only where somebody asks.
    rig.edit(json!({"spec": {"nodeUpdateStrategy": "Rolling", "nodeDrain": null}}))
        .await;
    rig.sync().await;
    assert_eq!(key_hash(&rig).await, None);
    rig.edit(json!({"spec": {"nodeUpdateStrategy": "Draining"}}))
        .await;

    // Somebody broke it: it is said, and nothing changes on the nodes.
    let nothing = Patch::Merge(json!({"data": {"key": null}}));
    let params = PatchParams::default();
    let name = "csi-operator-mounts-key";
    secrets.patch(name, &params, &nothing).await.unwrap();
    let mut restarted = rig.restarted().await;
    restarted.reconcile("hostpath").await;
    let told = restarted.condition("SyncSuccessful").await;
    assert!(
        told["message"].as_str().unwrap().contains("delete it"),
        "{told}"
    );
    secrets
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    restarted.sync().await;
    assert_ne!(key_hash(&rig).await.unwrap(), hash);
}
