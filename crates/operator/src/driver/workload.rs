//! DaemonSets, the Deployment, and how many of its pods may be unavailable.

use serde_json::{Value, json};
use stowage_api::driver_deployment::{DAEMON_SET_LABEL, DEPLOYMENT_LABEL};

use super::object::{Kind, Object};
use super::sidecar::{self, KUBELET_VOLUME, PROBE_PORT_NAME, REGISTRATION_VOLUME, SOCKET_VOLUME};
use super::template::{Editor, PodTemplate};
use super::valid::{
    Controller, Limit, NodeShape, NodeWorkload, Probe, UpdateStrategy, ValidDriver,
};
use super::{Facts, PodFacts, object};

/// Annotation of pods that changes when they are to be replaced although their template has not changed.
const RESTART_HASH: &str = "stowage.dev/restart-hash";

/// Begins the names of volumes with secrets.
const SECRET_VOLUME: &str = "driver-secret";

pub(super) fn workloads(driver: &ValidDriver, facts: &Facts) -> Vec<Object> {
    let mut objects = Vec::new();
    for workload in &driver.node_workloads {
        match workload.shape {
            NodeShape::DaemonSet(update) => {
                let pod = node_pod(driver, workload, &facts.pods);
                objects.push(daemon_set(driver, workload, update, pod));
            }
            NodeShape::PodPerNode => {}
        }
    }
    if let Some(controller) = &driver.controller {
        objects.push(deployment(driver, controller, &facts.pods));
        if controller.replicas > 1 {
            objects.push(disruption_budget(driver, controller));
        }
    }
    objects
}

fn daemon_set(
    driver: &ValidDriver,
    workload: &NodeWorkload,
    update: UpdateStrategy,
    mut pod: Editor,
) -> Object {
    let update = match update {
        UpdateStrategy::Rolling(None) => json!({"type": "RollingUpdate"}),
        UpdateStrategy::Rolling(Some(limit)) => {
            let limit = match limit {
                Limit::Nodes(count) => json!(count),
                Limit::Percent(percent) => json!(format!("{percent}%")),
            };
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}})
        }
        UpdateStrategy::OnDelete => json!({"type": "OnDelete"}),
    };
    pod.add_label(DAEMON_SET_LABEL, &workload.name);
    let spec = json!({
        "selector": {"matchLabels": {DAEMON_SET_LABEL: workload.name}},
        "template": pod.done(),
        "updateStrategy": update,
    });
    object(
        &driver.owner,
        Kind::DaemonSet,
        &workload.name,
        json!({"spec": spec}),
    )
}

/// The pod of a workload on one node. The scheduler places it, so that it counts among the node's pods and waits for
/// the volumes and the room that it needs.
pub fn pod_on_node(
    driver: &ValidDriver,
    workload: &NodeWorkload,
    facts: &PodFacts,
    name: &str,
    node: &str,
) -> Object {
    let mut pod = node_pod(driver, workload, facts);
    pod.replace_node_affinity(json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
            }],
        },
    }));
    let pod = pod.done();
    let mut object = object(&driver.owner, Kind::Pod, name, json!({"spec": pod["spec"]}));
    let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    object.labels.extend(labels);
    object
}

fn node_pod(driver: &ValidDriver, workload: &NodeWorkload, facts: &PodFacts) -> Editor {
    let root = &driver.paths.kubelet_root;
    let mut pod = workload.template.edit();
    pod.place(&workload.placement);
    pod.add_volume(host_path(
        REGISTRATION_VOLUME,
        &format!("{root}/plugins_registry"),
        "Directory",
    ));
    pod.add_volume(host_path(
        SOCKET_VOLUME,
        &driver.paths.plugin_directory,
        "DirectoryOrCreate",
    ));
    pod.add_volume(host_path(KUBELET_VOLUME, root, "Directory"));
    pod.add_driver_mount(socket_mount(driver));
    pod.add_driver_mount(json!({
        "name": KUBELET_VOLUME, "mountPath": root, "mountPropagation": "Bidirectional",
    }));
    let beside = Beside {
        containers: sidecar::of_node(driver, &workload.template, facts),
        health_port: driver.ports.node_health,
        account: driver.node_account(),
        priority_class: "system-node-critical",
    };
    completed(pod, driver, &workload.template, beside, facts)
}

/// What pods get beside the driver.
struct Beside<'a> {
    containers: Vec<Value>,
    health_port: u16,
    account: &'a str,
    priority_class: &'static str,
}

fn completed(
    mut pod: Editor,
    driver: &ValidDriver,
    template: &PodTemplate,
    beside: Beside<'_>,
    facts: &PodFacts,
) -> Editor {
    if let Some(hash) = &facts.restart_hash {
        pod.add_annotation(RESTART_HASH, hash);
    }
    if let Some(probe) = driver.probe
        && !pod.has_driver_probe()
    {
        add_probe(&mut pod, probe, beside.health_port);
    }
    for container in beside.containers {
        pod.add_container(container);
    }
    if template.service_account().is_none() {
        pod.default_field("serviceAccountName", json!(beside.account));
    }
    // An empty one is a choice: some clusters admit critical pods in kube-system only.
    let is_open = |field: &str| template.spec()[field].is_null();
    if is_open("priority") && is_open("priorityClassName") {
        pod.default_field("priorityClassName", json!(beside.priority_class));
    }
    pod.add_pull_secrets(&driver.pull_secrets);
    for (number, secret) in driver.driver_secrets.iter().enumerate() {
        let name = format!("{SECRET_VOLUME}-{number}");
        let source = json!({"secretName": secret.name, "optional": secret.is_optional});
        pod.add_volume(json!({"name": name, "secret": source}));
        pod.add_driver_mount(json!({"name": name, "mountPath": secret.path, "readOnly": true}));
    }
    pod
}

fn deployment(driver: &ValidDriver, controller: &Controller, facts: &PodFacts) -> Object {
    let spec = json!({
        "replicas": controller.replicas,
        "selector": {"matchLabels": {DEPLOYMENT_LABEL: controller.name}},
        "strategy": strategy(controller),
        "template": controller_pod(driver, controller, facts),
    });
    object(
        &driver.owner,
        Kind::Deployment,
        &controller.name,
        json!({"spec": spec}),
    )
}

/// On the network of a node a new pod cannot start beside an old one, whose ports it needs: on a cluster with as many
/// nodes as pods an update would never end.
fn strategy(controller: &Controller) -> Value {
    if controller.template.uses_host_network() {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
    } else {
        json!({"type": "RollingUpdate"})
    }
}

fn controller_pod(driver: &ValidDriver, controller: &Controller, facts: &PodFacts) -> Value {
    let mut pod = controller.template.edit();
    pod.add_label(DEPLOYMENT_LABEL, &controller.name);
    pod.add_volume(json!({"name": SOCKET_VOLUME, "emptyDir": {}}));
    pod.add_driver_mount(socket_mount(driver));
    if controller.replicas > 1 {
        pod.default_anti_affinity(spread(controller));
    }
    pod.place(&controller.placement);
    let beside = Beside {
        containers: sidecar::of_controller(driver, &controller.template),
        health_port: driver.ports.controller_health,
        account: driver.controller_account(),
        priority_class: "system-cluster-critical",
    };
    completed(pod, driver, &controller.template, beside, facts).done()
}

/// Preferred, never required: on a cluster with one node an update would never end.
fn spread(controller: &Controller) -> Value {
    json!({
        "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "labelSelector": {"matchLabels": {DEPLOYMENT_LABEL: controller.name}},
                "topologyKey": "kubernetes.io/hostname",
            },
        }],
    })
}

fn disruption_budget(driver: &ValidDriver, controller: &Controller) -> Object {
    let spec = json!({
        "maxUnavailable": 1,
        "selector": {"matchLabels": {DEPLOYMENT_LABEL: controller.name}},
    });
    object(
        &driver.owner,
        Kind::PodDisruptionBudget,
        &controller.name,
        json!({"spec": spec}),
    )
}

fn host_path(name: &str, path: &str, kind: &str) -> Value {
    json!({"name": name, "hostPath": {"path": path, "type": kind}})
}

fn socket_mount(driver: &ValidDriver) -> Value {
    json!({"name": SOCKET_VOLUME, "mountPath": driver.paths.socket_directory})
}

/// The kubelet asks the sidecar, the sidecar asks the driver, and after three failures the kubelet restarts the driver.
fn add_probe(pod: &mut Editor, probe: Probe, port: u16) {
    pod.add_driver_port(json!({"name": PROBE_PORT_NAME, "containerPort": port, "protocol": "TCP"}));
    pod.set_driver_probe(json!({
        "httpGet": {"path": "/healthz", "port": PROBE_PORT_NAME},
        "initialDelaySeconds": probe.period,
        "periodSeconds": probe.period,
        "timeoutSeconds": probe.timeout,
        "failureThreshold": 3,
    }));
}
