//! What a change of the operator's own does to many drivers.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::Kind;

use crate::reconcile::rig::{condition_of, example, resource};
use crate::reconcile::running::{Running, children, eventually, instances, synced};

const NAMES: [&str; 3] = ["one", "other", "third"];

/// The image of a driver's sidecar on nodes.
async fn image(running: &Running, name: &str) -> Value {
    let sets = children(&running.client, Kind::DaemonSet).await;
    let set = sets.get(&format!("{name}-node")).await.unwrap();
    set.data["spec"]["template"]["spec"]["containers"][1]["image"].clone()
}

/// What the controllers of workloads count when all pods are replaced; there are no nodes.
async fn finish(running: &Running, name: &str) {
    let params = PatchParams::default();
    for (kind, name, counts) in [
        (
            Kind::DaemonSet,
            format!("{name}-node"),
            json!({
                "desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberReady": 0, "numberMisscheduled": 0,
            }),
        ),
        (
            Kind::Deployment,
            format!("{name}-controller"),
            json!({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
        ),
    ] {
        let api = children(&running.client, kind).await;
        let mut counts = counts;
        let generation = api.get(&name).await.unwrap().metadata.generation;
        counts["observedGeneration"] = json!(generation);
        let patch = Patch::Merge(json!({"status": counts}));
        api.patch_status(&name, &params, &patch).await.unwrap();
    }
}

async fn condition(running: &Running, name: &str, about: &str) -> Value {
    let instance = instances(&running.client).get(name).await.unwrap();
    condition_of(&serde_json::to_value(instance).unwrap(), about)
}

/// All drivers run, and nothing of them is being replaced.
async fn all_run(running: &Running) {
    for name in NAMES {
        let mut instance = example(name);
        instance["metadata"] = json!({"name": name, "namespace": "default"});
        running.create(instance).await;
    }
    for name in NAMES {
        synced(&running.client, name).await;
        finish(running, name).await;
        eventually("all pods run", async || {
            let progressing = condition(running, name, "Progressing").await;
            (progressing["status"] == "False").then_some(())
        })
        .await;
    }
}

/// What every driver is to have, one after the other.
fn new_sidecar(running: &Running) -> Value {
    let config = "defaultImages: {sidecarImage: 'new.example/sidecar:2'}";
    let config = OperatorConfig::parse(config).unwrap();
    running.config.send_replace(config);
    json!("new.example/sidecar:2")
}

/// Each of these says that it waits for its turn.
async fn all_wait(running: &Running, names: &[&str]) {
    for name in names {
        eventually("it waits", async || {
            let told = condition(running, name, "SyncSuccessful").await;
            (told["reason"] == "WaitingForTurn").then_some(())
        })
        .await;
    }
}

/// The first of these that has it.
async fn next_turn(running: &Running, waiting: &[&'static str], new: &Value) -> &'static str {
    eventually("the next driver has its turn", async || {
        for name in waiting {
            if image(running, name).await == *new {
                return Some(*name);
            }
        }
        None
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_with_a_problem_of_its_own_waits_for_its_turn_as_well() {
    let running = Running::start().await;
    // Somebody else has the name of one of its classes.
    let classes = resource("storage.k8s.io", "v1", "StorageClass", "storageclasses");
    let classes = Api::<DynamicObject>::all_with(running.client.clone(), &classes);
    let class = json!({"metadata": {"name": "other-a"}, "provisioner": "somebody.else"});
    let class = serde_json::from_value(class).unwrap();
    let created = classes.create(&PostParams::default(), &class).await;
    created.unwrap();
    for name in ["one", "other"] {
        let mut instance = example(name);
        instance["metadata"] = json!({"name": name, "namespace": "default"});
        running.create(instance).await;
    }
    synced(&running.client, "one").await;
    eventually("it has its problem", async || {
        let told = condition(&running, "other", "SyncSuccessful").await;
        (told["reason"] == "Collision").then_some(())
    })
    .await;
    for name in ["one", "other"] {
        finish(&running, name).await;
        eventually("all pods run", async || {
            let progressing = condition(&running, name, "Progressing").await;
            (progressing["status"] == "False").then_some(())
        })
        .await;
    }
    let new = new_sidecar(&running);
    let mut waiting = vec!["one", "other"];
    let first = next_turn(&running, &waiting, &new).await;
    waiting.retain(|name| *name != first);
    all_wait(&running, &waiting).await;
    assert_ne!(image(&running, waiting[0]).await, new);
    finish(&running, first).await;
    next_turn(&running, &waiting, &new).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_driver_that_is_no_longer_managed_or_about_to_go() {
    let running = Running::start().await;
    all_run(&running).await;
    let new = new_sidecar(&running);
    let mut waiting = NAMES.to_vec();
    let first = next_turn(&running, &waiting, &new).await;
    waiting.retain(|name| *name != first);
    all_wait(&running, &waiting).await;
    let instances = instances(&running.client);
    let unmanaged = Patch::Merge(json!({"spec": {"managementState": "Unmanaged"}}));
    let params = PatchParams::default();
    instances.patch(first, &params, &unmanaged).await.unwrap();
    let second = next_turn(&running, &waiting, &new).await;
    waiting.retain(|name| *name != second);

    // Its volumes keep it, and not the others.
    let volume = json!({
        "metadata": {"name": "kept"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": format!("{second}.example"), "volumeHandle": "kept"},
        },
    });
    let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
    let volumes = Api::<DynamicObject>::all_with(running.client.clone(), &volumes);
    let volume = serde_json::from_value(volume).unwrap();
    let created = volumes.create(&PostParams::default(), &volume).await;
    created.unwrap();
    let deletion = DeleteParams::default();
    instances.delete(second, &deletion).await.unwrap();
    next_turn(&running, &waiting, &new).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_in_line_is_told_also_when_the_first_of_them_wants_nothing_any_more() {
    let running = Running::start().await;
    all_run(&running).await;
    let new = new_sidecar(&running);
    let mut waiting = NAMES.to_vec();
    let first = next_turn(&running, &waiting, &new).await;
    waiting.retain(|name| *name != first);
    all_wait(&running, &waiting).await;
    // Whoever of the two is ahead: both are set aside in turn.
    let instances = instances(&running.client);
    let params = PatchParams::default();
    for state in ["Unmanaged", "Managed"] {
        let patch = Patch::Merge(
            json!({"metadata": {"labels": {"state": state}}, "spec": {"managementState": state}}),
        );
        instances.patch(waiting[0], &params, &patch).await.unwrap();
        eventually("it is taken up", async || {
            let instance = instances.get(waiting[0]).await.unwrap();
            (instance.data["status"]["state"] == state).then_some(())
        })
        .await;
    }
    let patch = Patch::Merge(json!({"spec": {"managementState": "Unmanaged"}}));
    instances.patch(waiting[1], &params, &patch).await.unwrap();
    finish(&running, first).await;
    next_turn(&running, &waiting[..1], &new).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_take_up_a_new_sidecar_one_after_the_other() {
    let running = Running::start().await;
    all_run(&running).await;
    let new = new_sidecar(&running);
    let mut waiting = NAMES.to_vec();
    while !waiting.is_empty() {
        let turn = next_turn(&running, &waiting, &new).await;
        waiting.retain(|name| *name != turn);
        for name in &waiting {
            eventually("it says whom it waits for", async || {
                let told = condition(&running, name, "SyncSuccessful").await;
                let message = told["message"].as_str()?;
                let is_told = message.ends_with(&format!("waiting for default/{turn}"));
                (told["reason"] == "WaitingForTurn" && is_told).then_some(())
            })
            .await;
            assert_ne!(image(&running, name).await, new);
        }
        // What somebody changes in an instance does not wait.
        if let Some(name) = waiting.first().filter(|_| waiting.len() == 1) {
            let patch = Patch::Merge(json!({"spec": {"controllerReplicas": 2}}));
            let params = PatchParams::default();
            let instances = instances(&running.client);
            instances.patch(name, &params, &patch).await.unwrap();
            eventually("it is put into effect", async || {
                (image(&running, name).await == new).then_some(())
            })
            .await;
            break;
        }
        finish(&running, turn).await;
    }
    running.stop().await;
}
