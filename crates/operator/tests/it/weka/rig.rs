//! An API server, nodes without kubelets, and an operator that can be killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::error::Error;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use stowage_kubernetes::events::Events;
use stowage_operator::cluster::Cluster;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::Kind;
use stowage_operator::driver_deployment::Operator;
use stowage_operator::metrics::OperatorMetrics;
use stowage_operator::mounts::Mounts;
use stowage_operator::rights::Rights;
use stowage_operator::served::{Served, Versions};
use stowage_operator::writer::Writer;
use stowage_service::{Health, Metrics, Process, Tasks};
use stowage_testing::{Lent, api_server_with};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::weka::kinds::resource;
use crate::weka::limited::Allowance;

/// The namespace of clients.
pub(crate) const CLIENTS: &str = "weka";
/// The namespace of CSI pods.
pub(crate) const CSI: &str = "weka-operator-system";
pub(crate) const ON: &str = "csi: {installationEnabled: true}";

/// Longest time anything may take before it counts as broken. Tests run beside each other.
const PATIENCE: Duration = Duration::from_secs(120);
/// Looking at everything takes the server's time, which the operator needs.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Rig {
    pub(crate) client: Client,
    config: watch::Sender<OperatorConfig>,
    /// The kind whose watch hears of nothing.
    behind: watch::Sender<&'static str>,
    /// Which version of budgets the server has.
    versions: Versions,
    running: Mutex<Option<Running>>,
    server: Lent,
}

struct Running {
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    left: Allowance,
}

async fn client_of(kubeconfig: &Path, left: &Allowance) -> Client {
    stowage_service::client::install_crypto_provider();
    // Shown for tests that fail.
    let _ = tracing_subscriber::fmt()
        .with_test_writer()
        .with_env_filter("warn,stowage=debug")
        .try_init();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let builder = ClientBuilder::try_from(config.unwrap()).unwrap();
    builder.with_layer(left).build()
}

impl Rig {
    /// A cluster with these nodes, and no operator yet.
    pub(crate) async fn new(nodes: &[&str], config: &str) -> Self {
        let server = api_server_with(&["weka.weka.io.yaml"]);
        let client = client_of(server.kubeconfig(), &Allowance::of(i64::MAX)).await;
        let writer = Writer::connect(client.clone(), &Served::default())
            .await
            .unwrap();
        let rig = Self {
            versions: writer.versions(),
            client,
            config: watch::Sender::new(OperatorConfig::parse(config).unwrap()),
            behind: watch::Sender::new(""),
            running: Mutex::default(),
            server,
        };
        for namespace in [CLIENTS, CSI, "csi-operator", "other"] {
            rig.create("namespaces", json!({"metadata": {"name": namespace}}))
                .await;
        }
        // Nobody else makes it here.
        let account = json!({"metadata": {"name": "default", "namespace": CLIENTS}});
        rig.create("serviceaccounts", account).await;
        for node in nodes {
            rig.add_node(node).await;
        }
        rig
    }

    /// The same with an operator.
    pub(crate) async fn started(nodes: &[&str], config: &str) -> Self {
        let rig = Self::new(nodes, config).await;
        rig.start(i64::MAX).await;
        rig
    }

    pub(crate) async fn add_node(&self, name: &str) {
        let labels = json!({"kubernetes.io/hostname": name});
        self.create(
            "nodes",
            json!({"metadata": {"name": name, "labels": labels}}),
        )
        .await;
    }

    /// An operator that may send so many writes.
    pub(crate) async fn start(&self, writes: i64) {
        let kubeconfig = self.server.kubeconfig().to_owned();
        self.start_with(&kubeconfig, writes).await;
    }

    /// An operator that may do no more than this account.
    pub(crate) async fn start_as(&self, account: &str) {
        let user = format!("system:serviceaccount:{account}");
        let kubeconfig = self.server.kubeconfig_of(&user).unwrap();
        self.start_with(&kubeconfig, i64::MAX).await;
    }

    /// Applies files of `deploy`.
    pub(crate) fn install(&self, files: &[&str]) {
        for file in files {
            let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
            self.server.kubectl(&["apply", "-f", &path]).unwrap();
        }
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap()
    }

    pub(crate) fn try_kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        self.server.kubectl(arguments)
    }

    pub(crate) fn apply(&self, manifest: &str) {
        let arguments = ["apply", "-f", "-"];
        self.server
            .kubectl_with_input(&arguments, manifest)
            .unwrap();
    }

    async fn start_with(&self, kubeconfig: &Path, writes: i64) {
        let left = Allowance::with(writes, self.behind.subscribe());
        let client = client_of(kubeconfig, &left).await;
        let metrics = Metrics::new();
        let stop = CancellationToken::new();
        let process = Process {
            health: Health::default(),
            metrics: metrics.clone(),
            tasks: Tasks::new(stop.clone()),
            shutdown: stop.clone(),
        };
        let cluster = Cluster::default();
        // What is told counts as nothing that was done.
        let teller = client_of(kubeconfig, &Allowance::of(i64::MAX)).await;
        let events = Events::new(teller, "test", &metrics);
        let operator = Operator {
            evictions: client.clone(),
            mounts: Mounts::new(client.clone(), "csi-operator"),
            max_concurrent_rollouts: 1,
            namespace: "csi-operator".to_owned(),
            client: client.clone(),
            config: self.config.subscribe(),
            metrics: OperatorMetrics::register(&metrics),
            events: events.clone(),
            rights: Rights::default(),
            cluster: cluster.clone(),
        };
        let facts = tokio::spawn(async move { cluster.watch(client, &Rights::default()).await });
        let stopped = stop.clone();
        let telling = tokio::spawn(async move { events.run(stopped).await });
        let stopped = stop.clone();
        let work = tokio::spawn(async move {
            stowage_operator::weka::run(operator, &process, stopped)
                .await
                .unwrap();
        });
        let tasks = vec![facts, telling, work];
        *self.running.lock() = Some(Running { tasks, stop, left });
    }

    /// The operator starts again. It knows what there is now, and hears of no change of this kind from then on, as with a
    /// watch that is far behind.
    pub(crate) async fn fall_behind(&self, plural: &'static str) {
        self.kill().await;
        self.behind.send_replace(plural);
        self.start(i64::MAX).await;
        eventually("it knows what there is", async || {
            let running = self.running.lock();
            let is_behind = running.as_ref().is_some_and(|it| it.left.is_behind());
            is_behind.then_some(())
        })
        .await;
    }

    /// The watch hears of everything that it has missed.
    pub(crate) fn catch_up(&self) {
        self.behind.send_replace("");
    }

    /// As `kill -9` does it.
    pub(crate) async fn kill(&self) {
        let running = self.running.lock().take();
        let Some(running) = running else { return };
        running.left.end();
        for task in running.tasks {
            task.abort();
            let _ = task.await;
        }
        running.stop.cancel();
    }

    /// Whether the operator has used up what it may write.
    pub(crate) fn is_dead(&self) -> bool {
        let running = self.running.lock();
        running.as_ref().is_none_or(|it| it.left.left() < 0)
    }

    /// How many writes were sent since the start.
    pub(crate) fn writes(&self) -> i64 {
        let running = self.running.lock();
        let left = running.as_ref().map(|it| it.left.left());
        i64::MAX - left.unwrap_or(i64::MAX)
    }

    /// How many reads were sent since the start, watches included.
    pub(crate) fn reads(&self) -> i64 {
        let running = self.running.lock();
        running.as_ref().map_or(0, |it| it.left.reads())
    }

    pub(crate) fn configure(&self, config: &str) {
        self.config
            .send_replace(OperatorConfig::parse(config).unwrap());
    }

    pub(crate) fn api(&self, plural: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = match plural {
            "poddisruptionbudgets" => Kind::PodDisruptionBudget.resource(self.versions),
            plural => resource(plural),
        };
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    pub(crate) async fn create(&self, plural: &str, object: Value) {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let api = self.api(plural, namespace);
        let mut object = object.clone();
        let resource = resource(plural);
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn create_client(&self, name: &str, spec: Value) {
        let mut all = json!({"image": "weka:4.4.5"});
        all.as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let metadata = json!({"name": name, "namespace": CLIENTS});
        self.create("wekaclients", json!({"metadata": metadata, "spec": all}))
            .await;
    }

    pub(crate) async fn get(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let found = self.api(plural, namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
    }

    pub(crate) async fn client_named(&self, name: &str) -> Value {
        self.get("wekaclients", CLIENTS, name).await
    }

    pub(crate) async fn patch(&self, plural: &str, namespace: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let api = self.api(plural, namespace);
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let api = self.api(plural, namespace);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// As a kubelet reports a pod that serves, or does not.
    pub(crate) async fn report(&self, namespace: &str, pod: &str, ready: bool) {
        let since = if ready {
            "2026-01-01T00:00:00Z"
        } else {
            "2020-01-01T00:00:00Z"
        };
        let condition = json!({
            "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": since,
        });
        let status =
            json!({"phase": "Running", "podIPs": [{"ip": "127.0.0.1"}], "conditions": [condition]});
        self.set_status("pods", namespace, pod, status).await;
    }

    /// Changes the status of an object as whoever takes care of it does.
    pub(crate) async fn set_status(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
        status: Value,
    ) {
        let patch = Patch::Merge(json!({"status": status}));
        let api = self.api(plural, namespace);
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// A volume of a driver on a node.
    pub(crate) async fn attach_unnoticed(&self, name: &str, driver: &str, node: &str) {
        let source = json!({"persistentVolumeName": name});
        let spec = json!({"attacher": driver, "nodeName": node, "source": source});
        self.create(
            "volumeattachments",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    /// The same, which the container there has taken notice of.
    pub(crate) async fn attach(&self, name: &str, driver: &str, node: &str, container: &str) {
        self.attach_unnoticed(name, driver, node).await;
        eventually("the volume is noticed", async || {
            let container = self.get("wekacontainers", CLIENTS, container).await;
            (container["status"]["stats"]["activeMounts"] == 1).then_some(())
        })
        .await;
    }

    /// Everything that the operator made: `Kind name`.
    pub(crate) async fn objects(&self) -> BTreeSet<String> {
        const KINDS: [(&str, &str); 11] = [
            ("serviceaccounts", "weka.io/csi-driver-name"),
            ("clusterroles", "weka.io/csi-driver-name"),
            ("clusterrolebindings", "weka.io/csi-driver-name"),
            ("roles", "weka.io/csi-driver-name"),
            ("rolebindings", "weka.io/csi-driver-name"),
            ("csidrivers", "weka.io/csi-driver-name"),
            ("storageclasses", "weka.io/csi-driver-name"),
            ("poddisruptionbudgets", "weka.io/csi-driver-name"),
            ("deployments", "weka.io/csi-driver-name"),
            ("wekacontainers", ""),
            ("pods", ""),
        ];
        let mut all = BTreeSet::new();
        for (plural, labels) in KINDS {
            let selector = ListParams::default().labels(labels);
            let list = self.api(plural, "").list(&selector).await.unwrap();
            all.extend(list.iter().map(|it| format!("{plural} {}", it.name_any())));
        }
        all
    }

    /// Labels of a node that are not its own.
    pub(crate) async fn node_labels(&self, node: &str) -> Vec<String> {
        let node = self.get("nodes", "", node).await;
        let labels = node["metadata"]["labels"].as_object();
        let ours = labels
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.starts_with("topology.csi"));
        ours.map(|(key, value)| format!("{key}={}", value.as_str().unwrap()))
            .collect()
    }

    pub(crate) async fn until_objects(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        let mut last = BTreeSet::new();
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            last = self.objects().await;
            if last == expected {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let missing: Vec<_> = expected.difference(&last).collect();
        let extra: Vec<_> = last.difference(&expected).collect();
        panic!("missing: {missing:#?}\nnot expected: {extra:#?}");
    }

    /// Waits until the client looks as expected.
    pub(crate) async fn until_client(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let started = Instant::now();
        loop {
            let client = self.client_named(name).await;
            if is_so(&client) {
                return client;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "client {name} never: {what}; it says {:#}",
                client["status"]
            );
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().take() {
            running.stop.cancel();
        }
    }
}

pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

pub(crate) fn condition(object: &Value, about: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    conditions
        .find(|it| it["type"] == about)
        .unwrap_or_default()
}
