//! The conditions tell the truth.

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use stowage_api::termination::{Cause, Termination};
use stowage_operator::driver::Kind;

use crate::reconcile::pods;
use crate::reconcile::rig::{Rig, condition_of, resource};

fn is(about: &'static str, status: &'static str, reason: &'static str) -> impl Fn(&Value) -> bool {
    move |instance| {
        let condition = condition_of(instance, about);
        condition["status"] == status && condition["reason"] == reason
    }
}

/// What the condition `Available` says.
fn message(instance: &Value) -> String {
    let condition = condition_of(instance, "Available");
    condition["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_driver_is_available_when_its_pods_run_and_kubelets_know_it() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    assert!(is("Available", "False", "Starting")(&rig.instance().await));
    rig.make_ready(2).await;
    let instance = rig
        .sync_until("available", is("Available", "True", "Ready"))
        .await;
    assert_eq!(instance["status"]["nodes"], "2/2");
    assert_eq!(instance["status"]["message"], "2 of 2 nodes ready.");
    assert!(is("Progressing", "False", "Complete")(&instance));
    // Steady: not a single write.
    let before = rig.versions().await;
    rig.sync().await;
    assert_eq!(rig.versions().await, before);
}

#[tokio::test]
async fn a_driver_without_a_controller_can_be_available() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["spec"]["driverControllerTemplate"] = json!(null))
        .await;
    rig.make_ready(1).await;
    rig.sync_until("available", is("Available", "True", "Ready"))
        .await;
}

#[tokio::test]
async fn missing_controllers_and_missing_nodes_are_told_apart() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.make_ready(3).await;
    rig.sync_until("available", is("Available", "True", "Ready"))
        .await;
    rig.patch_status(
        Kind::DaemonSet,
        "hostpath-node",
        json!({"numberAvailable": 2, "numberUnavailable": 1}),
    )
    .await;
    let instance = rig
        .sync_until("short of nodes", is("Available", "False", "NodesNotReady"))
        .await;
    assert_eq!(
        condition_of(&instance, "Available")["message"],
        "2 of 3 nodes ready.\nDaemonSet \"hostpath-node\" with CSI driver has 1 not ready pod(s)."
    );
    let counts = json!({"availableReplicas": 0, "unavailableReplicas": 1});
    rig.patch_status(Kind::Deployment, "hostpath-controller", counts)
        .await;
    let instance = rig
        .sync_until(
            "without controller",
            is("Available", "False", "ControllerNotReady"),
        )
        .await;
    let message = message(&instance);
    assert!(
        message
            .contains("Deployment \"hostpath-controller\" with CSI driver has 1 not ready pod(s)."),
        "{message}"
    );
}

#[tokio::test]
async fn the_real_name_of_a_driver_is_found_where_kubelets_know_it() {
    let mut rig = Rig::new().await;
    let upstream = json!({"mode": "Upstream"});
    rig.deploy(|instance| instance["spec"]["sidecars"] = upstream)
        .await;
    pods::create(&rig).await;
    // Another driver of the node has its CSIDriver: it is not this one.
    let others = format!("{}.other", rig.namespace);
    let other = json!({"metadata": {"name": others}, "spec": {"attachRequired": false}});
    let other = serde_json::from_value(other).unwrap();
    let drivers = rig.api(Kind::CsiDriver);
    drivers
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let real = format!("{}.real", rig.namespace);
    let known = json!([{"name": others, "nodeID": "n"}, {"name": real, "nodeID": "n"}]);
    let node = json!({"metadata": {"name": pods::NODE}, "spec": {"drivers": known}});
    let csi_nodes = resource("storage.k8s.io", "v1", "CSINode", "csinodes");
    let csi_nodes = Api::<DynamicObject>::all_with(rig.client.clone(), &csi_nodes);
    let node = serde_json::from_value(node).unwrap();
    let created = csi_nodes.create(&PostParams::default(), &node).await;
    created.unwrap();
    rig.count_ready(1).await;
    let instance = rig
        .sync_until("told", is("Available", "False", "DriverNameMismatch"))
        .await;
    let told = message(&instance);
    let expected = format!(
        "The driver reports the name `{real}`, as kubelets of its nodes tell, but `driverName` is `{0}.example`: change one of \
         them. 0 of 1 nodes ready.",
        rig.namespace
    );
    assert_eq!(told, expected);
}

#[tokio::test]
async fn an_update_makes_a_driver_progress_until_its_pods_are_new() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.make_ready(1).await;
    rig.sync_until("available", is("Available", "True", "Ready"))
        .await;
    rig.edit(json!({"spec": {"probePeriodSeconds": 5}})).await;
    rig.sync().await;
    let instance = rig.instance().await;
    assert!(
        is("Progressing", "True", "RollingOut")(&instance),
        "{instance:#}"
    );
    assert!(
        is("Available", "False", "Starting")(&instance),
        "counts of the old pods are not believed"
    );
    rig.make_ready(1).await;
    rig.sync_until("complete", is("Progressing", "False", "Complete"))
        .await;
}

/// A driver that is deployed to one node, and not ready there.
async fn short_of_its_only_node() -> Rig {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.make_ready(1).await;
    let counts = json!({"numberAvailable": 0, "numberUnavailable": 1});
    rig.patch_status(Kind::DaemonSet, "hostpath-node", counts)
        .await;
    rig
}

async fn pod(rig: &Rig, status: Value) {
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    let api = pods::create(rig).await;
    api.patch_status(pods::NAME, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn container(state: &Value, last: &Value) -> Value {
    json!({"containerStatuses": [{
        "name": "csi-sidecar", "image": "x", "imageID": "", "ready": false, "restartCount": 1, "state": state,
        "lastState": last,
    }]})
}

#[tokio::test]
async fn the_first_failing_pod_tells_its_own_reason() {
    let mut rig = short_of_its_only_node().await;
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nowhere/x\""}});
    pod(&rig, container(&waiting, &json!({}))).await;
    let instance = rig
        .sync_until("short of nodes", is("Available", "False", "NodesNotReady"))
        .await;
    let message = message(&instance);
    assert!(
        message.ends_with(
            "Pod hostpath-node-x on node n: container csi-sidecar: ImagePullBackOff: Back-off pulling image \"nowhere/x\""
        ),
        "{message}"
    );
}

#[tokio::test]
async fn a_driver_that_calls_itself_something_else_is_not_available() {
    let mut rig = short_of_its_only_node().await;
    let words = Termination {
        sentence: "nothing was done".to_owned(),
        cause: Some(Cause::DriverNameMismatch {
            expected: "a".to_owned(),
            reported: "other.example".to_owned(),
        }),
    };
    let last = json!({"terminated": {"exitCode": 1, "message": words.to_message()}});
    pod(
        &rig,
        container(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &last),
    )
    .await;
    let instance = rig
        .sync_until("misnamed", is("Available", "False", "DriverNameMismatch"))
        .await;
    let message = message(&instance);
    assert!(
        message.contains("`other.example`")
            && message.contains(&format!("`{}.example`", rig.namespace)),
        "{message}"
    );
}

#[tokio::test]
async fn pods_that_admission_refuses_are_explained() {
    let quota = "Error creating: pods is forbidden: exceeded quota: no-pods";
    let critical = "Error creating: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]";
    for (told, expected) in [
        (quota, quota),
        // Some clusters admit critical pods in kube-system only.
        (
            critical,
            "; set `priorityClassName: \"\"` in the template, or admit the class by a ResourceQuota",
        ),
    ] {
        let mut rig = short_of_its_only_node().await;
        let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
        let event = json!({
            "metadata": {"name": "refused"}, "reason": "FailedCreate", "type": "Warning", "message": told,
            "involvedObject": {
                "kind": "DaemonSet", "name": "hostpath-node", "namespace": rig.namespace, "uid": set["metadata"]["uid"],
            },
        });
        let resource = resource("", "v1", "Event", "events");
        let api =
            Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &resource);
        let event = serde_json::from_value(event).unwrap();
        api.create(&PostParams::default(), &event).await.unwrap();
        let instance = rig
            .sync_until("short of nodes", is("Available", "False", "NodesNotReady"))
            .await;
        let message = message(&instance);
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_template_without_a_priority_class_keeps_none() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| {
        for template in ["driverPerNodeTemplate", "driverControllerTemplate"] {
            instance["spec"][template]["spec"]["priorityClassName"] = json!("");
        }
    })
    .await;
    for (kind, name) in [
        (Kind::DaemonSet, "hostpath-node"),
        (Kind::Deployment, "hostpath-controller"),
    ] {
        let spec = rig.get(kind, name).await["spec"]["template"]["spec"].clone();
        let class = spec["priorityClassName"].as_str().unwrap_or_default();
        assert_eq!(class, "", "{name}");
    }
    let before = rig.versions().await;
    rig.sync().await;
    assert_eq!(rig.versions().await, before, "and it is no drift");
}
