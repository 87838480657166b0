//! `./x bench weka-operator`: a WekaClient on many nodes, on a control plane of its own.
//!
//! There are no kubelets: what is measured is what the operator and the API server do.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::weka::WekaContainer;
use tokio::time::{Instant, sleep};

use crate::control_plane::Measured;
use crate::latency::Latency;
use crate::memory::Most;
use crate::process::Process;
use crate::rest::{at_rest, many, until_quiet, written};
use crate::say;
use crate::table::{Goal, Row, Table};

const DEFINITIONS: [&str; 2] = [
    include_str!("../../deploy/crds/csidriver.storage.openshift.io.yaml"),
    include_str!("../../deploy/crds/weka.weka.io.yaml"),
];
/// Where the client is.
const CLIENTS: &str = "weka";
/// Where CSI node pods are.
const CSI: &str = "weka-operator-system";
/// The operator's configuration, as `deploy/operator.yaml` names it.
const CONFIG: &str = "csi-operator-config";
/// The controller's Deployment.
const CONTROLLER: &str = "weka-csi-controller";
/// Replicas of the controller at the start.
const REPLICAS: i32 = 2;
/// The label of nodes that get a client.
const LABEL: &str = "bench";
/// How many node pods are deleted, and how many nodes are labelled, one after the other.
const CHANGED: usize = 10;
/// How long the operator may take to react to a change, s.
const REACTION: f64 = 2.0;
/// What all nodes share: kind, group, name in paths, namespace and name.
const SHARED: [(&str, &str, &str, &str, &str); 3] = [
    (
        "CSIDriver",
        "storage.k8s.io",
        "csidrivers",
        "",
        "csi.weka.io",
    ),
    (
        "StorageClass",
        "storage.k8s.io",
        "storageclasses",
        "",
        "storageclass-csi-weka-io-default",
    ),
    ("Deployment", "apps", "deployments", CSI, CONTROLLER),
];
/// What memory it may have.
const MOST: Most = Most {
    working_set: Some(60.0),
    anonymous: None,
};
/// How long any part of it may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// A WekaClient on many nodes: time until all pods are made, requests, memory, rest, and repair
///
/// The operator is a process of its own, as is the control plane, which is one of this run and has no kubelets. Requests
/// are counted in the API server's audit log.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Nodes that all get a client
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub nodes: usize,
    /// Seconds of rest in which nothing may be written
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub rest: u64,
}

/// Measures, prints what is found, and returns it.
pub async fn run(stowage: &Path, args: &Args) -> anyhow::Result<Table> {
    ensure!(args.nodes > 0, "--nodes must be at least 1");
    let stage = prepare(args).await?;
    let begin = stage.audit.end();
    let operator = Process::start(stowage, &arguments(&stage)).await?;
    until_all_there(&stage, args.nodes).await?;
    let converged = operator.started().elapsed();
    let requests = until_quiet(&stage, begin, PATIENCE).await?;
    say(&format!("requests of the operator: {}", requests.summary()));

    let mut table = Table::new(format!("a Weka client on {} nodes", args.nodes));
    let seconds = converged.as_secs_f64();
    table.add(Row::new("start to all pods made, s", seconds));
    let nodes = many(args.nodes);
    table.add(Row::new(
        "API writes per node",
        many(written(&requests)) / nodes,
    ));
    table.add(Row::new(
        "API reads per node",
        many(requests.reads()) / nodes,
    ));
    at_rest(&stage, Duration::from_secs(args.rest), &mut table).await?;
    operator.memory()?.add_to(&mut table, "at rest", MOST);
    reactions(&stage, args.nodes.min(CHANGED), &mut table).await?;
    operator.stop().await?;
    say(&format!("{table}\n"));
    Ok(table)
}

/// How long it takes until the operator has answered a change: of what it made, of a node, of its configuration.
async fn reactions(stage: &Measured, count: usize, table: &mut Table) -> anyhow::Result<()> {
    let mut add = |what: &str, took: Duration| {
        let row = Row::new(what, took.as_secs_f64());
        table.add(row.goal(Goal::AtMost(REACTION)));
    };
    let slowest = repair(stage, count).await?;
    add("a deleted node pod is back, slowest, s", slowest);
    for (what, group, plural, namespace, name) in SHARED {
        let kind = GroupVersionKind::gvk(group, "v1", what);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let api = match namespace {
            "" => Api::<DynamicObject>::all_with(stage.admin.clone(), &resource),
            namespace => Api::namespaced_with(stage.admin.clone(), namespace, &resource),
        };
        let took = back(&api, name).await?;
        add(&format!("a deleted {what} is back, s"), took);
    }
    let slowest = label(stage).await?;
    add("a labelled node has its container, slowest, s", slowest);
    let slowest = reconfigure(stage).await?;
    add("a changed configuration is in effect, slowest, s", slowest);
    Ok(())
}

/// Starts the control plane, with nodes and a client that wait.
async fn prepare(args: &Args) -> anyhow::Result<Measured> {
    let stage = Measured::start(|plane| {
        for definition in DEFINITIONS {
            plane.kubectl_with_input(&["apply", "-f", "-"], definition)?;
        }
        plane.wait_for_definitions()?;
        for namespace in [CLIENTS, CSI] {
            plane.kubectl(&["create", "namespace", namespace])?;
        }
        Ok(())
    })
    .await?;
    configure(&stage, REPLICAS).await?;
    let nodes = Api::<Node>::all(stage.admin.clone());
    Latency::measure(0..args.nodes, 8, |number| {
        let nodes = nodes.clone();
        async move { make(&nodes, &node_name(number), json!({LABEL: "yes"})).await }
    })
    .await?;
    let client = json!({
        "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaClient", "metadata": {"name": "c"},
        "spec": {"image": "example/weka:4.4.5", "tolerations": ["bench"], "nodeSelector": {LABEL: "yes"}},
    });
    let client = serde_json::from_value(client)?;
    clients(&stage)
        .create(&PostParams::default(), &client)
        .await?;
    Ok(stage)
}

fn arguments(stage: &Measured) -> Vec<String> {
    vec![
        "operator".to_owned(),
        format!("--kubeconfig={}", stage.kubeconfig.display()),
        format!("--config-map={CONFIG}"),
        "--leader-election=true".to_owned(),
        format!("--leader-election-namespace={CLIENTS}"),
    ]
}

fn clients(stage: &Measured) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("weka.weka.io", "v1alpha1", "WekaClient");
    let resource = ApiResource::from_gvk_with_plural(&kind, "wekaclients");
    Api::namespaced_with(stage.admin.clone(), CLIENTS, &resource)
}

async fn make(nodes: &Api<Node>, name: &str, labels: Value) -> anyhow::Result<()> {
    let node = json!({"metadata": {"name": name, "labels": labels}});
    let node = serde_json::from_value(node)?;
    nodes.create(&PostParams::default(), &node).await?;
    Ok(())
}

/// Writes the operator's configuration. Called twice: it is there once.
async fn configure(stage: &Measured, replicas: i32) -> anyhow::Result<()> {
    let values = format!("csi: {{installationEnabled: true, controllerReplicas: {replicas}}}\n");
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG},
        "data": {"config.yaml": values},
    });
    let maps = Api::<ConfigMap>::namespaced(stage.admin.clone(), CLIENTS);
    let params = PatchParams::apply("bench");
    maps.patch(CONFIG, &params, &Patch::Apply(config)).await?;
    Ok(())
}

fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

/// Waits until every node has its container, its client's pod and its node pod.
async fn until_all_there(stage: &Measured, count: usize) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let client = clients(stage).get("c").await?;
        let nodes = &client.data["status"]["csi"]["nodes"];
        if *nodes == json!(format!("0/{count}")) {
            let ours = ListParams::default().labels("weka.io/mode in (client,csi_node)");
            let pods = Api::<Pod>::all(stage.admin.clone());
            let pods = pods.list_metadata(&ours).await?.items.len();
            if pods == 2 * count {
                return Ok(());
            }
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "not all nodes have their pods after {PATIENCE:?}: {nodes}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// Deletes node pods one after the other; the longest time until one was back.
async fn repair(stage: &Measured, count: usize) -> anyhow::Result<Duration> {
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), CSI);
    let mut slowest = Duration::ZERO;
    for number in 0..count {
        let name = format!("c-{}-csi-node", node_name(number));
        slowest = slowest.max(back(&pods, &name).await?);
    }
    Ok(slowest)
}

/// Gives nodes the label, one after the other; the longest time until one had its container.
async fn label(stage: &Measured) -> anyhow::Result<Duration> {
    let nodes = Api::<Node>::all(stage.admin.clone());
    let containers = Api::<WekaContainer>::namespaced(stage.admin.clone(), CLIENTS);
    let names: Vec<_> = (0..CHANGED)
        .map(|number| format!("late-{number:04}"))
        .collect();
    for name in &names {
        make(&nodes, name, json!({})).await?;
    }
    let mut slowest = Duration::ZERO;
    for name in &names {
        let labels = Patch::Merge(json!({"metadata": {"labels": {LABEL: "yes"}}}));
        let started = Instant::now();
        nodes.patch(name, &PatchParams::default(), &labels).await?;
        let container = format!("c-{name}");
        let took = until(&containers, &container, started, |_| true);
        slowest = slowest.max(took.await?);
    }
    Ok(slowest)
}

/// Changes the operator's configuration and back; the longest time until the controller followed.
async fn reconfigure(stage: &Measured) -> anyhow::Result<Duration> {
    let deployments = Api::<Deployment>::namespaced(stage.admin.clone(), CSI);
    let mut slowest = Duration::ZERO;
    for replicas in [REPLICAS + 1, REPLICAS] {
        let follows = |controller: &Deployment| {
            let spec = controller.spec.as_ref();
            spec.is_some_and(|it| it.replicas == Some(replicas))
        };
        let started = Instant::now();
        configure(stage, replicas).await?;
        let took = until(&deployments, CONTROLLER, started, follows);
        slowest = slowest.max(took.await?);
    }
    Ok(slowest)
}

/// Deletes an object; how long it takes until it is back.
async fn back<K>(api: &Api<K>, name: &str) -> anyhow::Result<Duration>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let uid = api.get(name).await?.uid().context("no uid")?;
    let started = Instant::now();
    api.delete(name, &DeleteParams::background()).await?;
    let is_new = |found: &K| found.uid().is_some_and(|new| new != uid);
    until(api, name, started, is_new).await
}

/// Waits until an object is as expected; how long after `started` it was.
async fn until<K>(
    api: &Api<K>,
    name: &str,
    started: Instant,
    is_so: impl Fn(&K) -> bool,
) -> anyhow::Result<Duration>
where
    K: Clone + Debug + DeserializeOwned,
{
    loop {
        let found = api.get_opt(name).await?;
        if found.is_some_and(|found| is_so(&found)) {
            return Ok(started.elapsed());
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "{name} is not as expected after {PATIENCE:?}"
        );
        sleep(Duration::from_millis(2)).await;
    }
}
