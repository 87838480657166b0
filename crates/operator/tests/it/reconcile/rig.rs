//! One namespace, one instance, and a reconcile that is called by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use devcluster::testing::ApiServer;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use kube::runtime::{reflector, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_kubernetes::events::Events;
use stowage_operator::cluster::Cluster;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::Kind;
use stowage_operator::driver_deployment::{Context, EVENT_COMPONENT, Guarded, Operator, reconcile};
use stowage_operator::metrics::OperatorMetrics;
use stowage_operator::mounts::Mounts;
use stowage_operator::rights::Rights;
use stowage_operator::served::Versions;
use stowage_operator::writer::Writer;
use stowage_testing::{Lent, api_server_with, define, shared_for};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::reconcile::clock::TestClock;
use crate::reconcile::faults::{FaultLayer, Faults};

/// Longest time anything may take before it counts as broken: tests run beside each other.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// All of `deploy/crds`.
const ALL: &[&str] = &[""];

pub(crate) fn server() -> &'static ApiServer {
    static SERVER: OnceLock<Lent> = OnceLock::new();
    SERVER.get_or_init(|| shared_for("reconcile", |server| define(server, ALL)))
}

/// One for this test alone.
pub(crate) fn own_server() -> Lent {
    api_server_with(ALL)
}

pub(crate) async fn client_of(server: &ApiServer, faults: &Faults) -> Client {
    client_with(server, faults, true).await
}

async fn client_with(server: &ApiServer, faults: &Faults, retries: bool) -> Client {
    stowage_service::client::install_crypto_provider();
    // Shown for tests that fail.
    let _ = tracing_subscriber::fmt()
        .with_test_writer()
        .with_env_filter("warn,stowage=debug")
        .try_init();
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.default_retry = retries;
    let builder = ClientBuilder::try_from(config).unwrap();
    builder.with_layer(&FaultLayer(faults.clone())).build()
}

/// A client of somebody else.
pub(crate) async fn client_as(user: &str) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(server().kubeconfig()).unwrap();
    for of in &mut kubeconfig.auth_infos {
        let of = of.auth_info.get_or_insert_default();
        of.impersonate = Some(user.to_owned());
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// A name that no other test uses.
pub(crate) fn unique() -> String {
    format!("t{}", stowage_testing::unique())
}

/// The example of the original documentation, with names of its own.
pub(crate) fn example(namespace: &str) -> Value {
    let text = include_str!("../../golden/seed-builtin/instance.yaml");
    let mut instance: Value = serde_saphyr::from_str(text).unwrap();
    instance["metadata"] = json!({"name": "hostpath", "namespace": namespace});
    instance["spec"]["driverName"] = json!(format!("{namespace}.example"));
    instance["spec"]["storageClassTemplates"][0]["metadata"]["name"] =
        json!(format!("{namespace}-a"));
    instance["spec"]["storageClassTemplates"][1]["metadata"]["name"] =
        json!(format!("{namespace}-b"));
    // Two default classes in one cluster are no problem of these tests, but neither do they need one.
    instance["spec"]["storageClassTemplates"][0]["default"] = json!(true);
    instance
}

pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) faults: Faults,
    pub(crate) config: watch::Sender<OperatorConfig>,
    pub(crate) clock: TestClock,
    published: Events,
    context: Arc<Context>,
    versions: Versions,
    store: reflector::store::Writer<Guarded>,
    _watching: tokio::task::JoinHandle<()>,
}

impl Rig {
    /// A namespace of its own, and an operator that has just started.
    pub(crate) async fn new() -> Self {
        Self::in_namespace(new_namespace().await, None, Faults::default()).await
    }

    /// The same with an operator that is somebody else than the administrator.
    pub(crate) async fn with_client(operator: Client) -> Self {
        let clients = Some((operator.clone(), operator));
        Self::in_namespace(new_namespace().await, clients, Faults::default()).await
    }

    /// The same with an operator whose evictions are somebody else's.
    pub(crate) async fn with_evictions(evictions: Client) -> Self {
        let operator = client_of(server(), &Faults::default()).await;
        let clients = Some((operator, evictions));
        Self::in_namespace(new_namespace().await, clients, Faults::default()).await
    }

    /// Another operator on the same namespace: what a restart looks like.
    pub(crate) async fn restarted(&self) -> Self {
        Self::in_namespace(self.namespace.clone(), None, Faults::default()).await
    }

    /// The same, and it meets the same faults.
    pub(crate) async fn restarted_among_faults(&self) -> Self {
        Self::in_namespace(self.namespace.clone(), None, self.faults.clone()).await
    }

    /// `operator`: its client, and that for evictions, if they are not the administrator's.
    async fn in_namespace(
        namespace: String,
        operator: Option<(Client, Client)>,
        faults: Faults,
    ) -> Self {
        let administrator = client_of(server(), &faults).await;
        let (client, evictions) = match operator {
            Some(clients) => clients,
            None => {
                let evictions = client_with(server(), &faults, false).await;
                (administrator.clone(), evictions)
            }
        };
        let cluster = Cluster::default();
        let (watched, watching) = (cluster.clone(), client.clone());
        let watching =
            tokio::spawn(async move { watched.watch(watching, &Rights::default()).await });
        let read = tokio::time::timeout(Duration::from_secs(30), cluster.until_read());
        read.await
            .expect("the operator's account may not watch everything");
        let (reader, store) = reflector::store();
        let (config, configured) = watch::channel(OperatorConfig::default());
        let writer = Writer::connect(client.clone(), cluster.served())
            .await
            .unwrap();
        let versions = writer.versions();
        let registry = stowage_service::Metrics::new();
        let metrics = OperatorMetrics::register(&registry);
        let events = Events::new(client.clone(), EVENT_COMPONENT, &registry);
        let operator = Operator {
            mounts: Mounts::new(client.clone(), &namespace),
            max_concurrent_rollouts: 1,
            namespace: "csi-operator".to_owned(),
            client,
            evictions,
            config: configured,
            metrics,
            events: events.clone(),
            rights: Rights::default(),
            cluster,
        };
        let clock = TestClock::default();
        let context = Context::new(operator, writer, reader);
        let context = context.with_clock(clock.reads());
        Self {
            client: administrator,
            namespace,
            faults,
            config,
            clock,
            published: events,
            context: Arc::new(context),
            versions,
            store,
            _watching: watching,
        }
    }

    /// Creates the example, with changes, and syncs it.
    pub(crate) async fn deploy(&mut self, change: impl FnOnce(&mut Value)) {
        let mut instance = example(&self.namespace);
        change(&mut instance);
        self.create(instance).await;
        self.sync().await;
    }

    pub(crate) async fn create(&self, instance: Value) {
        let document = serde_json::from_value(instance).unwrap();
        self.instances()
            .create(&PostParams::default(), &document)
            .await
            .unwrap();
    }

    /// Reconciles until nothing is left to do. Returns how often that was.
    pub(crate) async fn sync(&mut self) -> usize {
        self.sync_named("hostpath").await
    }

    pub(crate) async fn sync_named(&mut self, name: &str) -> usize {
        for round in 1..=100 {
            if self.reconcile(name).await == Action::await_change() {
                return round;
            }
        }
        panic!(
            "100 reconciles were not enough: {:#}",
            self.instance_named(name).await
        );
    }

    /// One reconcile, as the controller would call it.
    pub(crate) async fn reconcile(&mut self, name: &str) -> Action {
        match self.seen(name).await {
            Some(instance) => self.reconcile_seen(instance).await,
            None => Action::await_change(),
        }
    }

    /// The same with an instance that may have changed since it was seen.
    pub(crate) async fn reconcile_seen(&self, instance: Guarded) -> Action {
        // Boxed: it is large, and part of every test's.
        let outcome = Box::pin(reconcile(Arc::new(instance), self.context.clone()));
        outcome.await.unwrap()
    }

    /// The instance as the controller's watch sees it now.
    pub(crate) async fn seen(&mut self, name: &str) -> Option<Guarded> {
        let calm = client_of(server(), &Faults::default()).await;
        let api = Api::<Guarded>::namespaced(calm, &self.namespace);
        let all = api.list(&ListParams::default()).await.unwrap();
        self.store.apply_watcher_event(&watcher::Event::Init);
        let mut found = None;
        for instance in all {
            if instance.name_any() == name {
                found = Some(instance.clone());
            }
            self.store
                .apply_watcher_event(&watcher::Event::InitApply(instance));
        }
        self.store.apply_watcher_event(&watcher::Event::InitDone);
        found
    }

    /// The same for one that was stored with another definition than ours.
    pub(crate) async fn unreadable(&mut self, name: &str) -> Guarded {
        let seen = self.seen(name).await.unwrap();
        DeserializeGuard(Err(InvalidObject {
            error: "stored with another definition".to_owned(),
            metadata: seen.0.unwrap().metadata,
        }))
    }

    pub(crate) fn instances(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<CSIDriverDeployment>(&());
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The instance as JSON; null when it is gone.
    pub(crate) async fn instance(&self) -> Value {
        self.instance_named("hostpath").await
    }

    pub(crate) async fn instance_named(&self, name: &str) -> Value {
        let found = self.instances().get_opt(name).await.unwrap();
        found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
    }

    /// Changes the instance as a user does.
    pub(crate) async fn edit(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.instances()
            .patch("hostpath", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Deletes the instance as a user does.
    pub(crate) async fn delete(&self) {
        let deletion = DeleteParams::default();
        let deleted = self.instances().delete("hostpath", &deletion).await;
        deleted.unwrap();
    }

    pub(crate) async fn condition(&self, about: &str) -> Value {
        condition_of(&self.instance().await, about)
    }

    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        self.api_in(kind, &self.namespace)
    }

    pub(crate) fn api_in(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = kind.resource(self.versions);
        if kind.is_namespaced() {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// An object as JSON; null where there is none.
    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Value {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
    }

    pub(crate) async fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api(kind)
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn patch_status(&self, kind: Kind, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api(kind)
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Everything that belongs to the instance: `Kind name` and the object.
    pub(crate) async fn owned(&self) -> BTreeMap<String, Value> {
        let labels = format!(
            "csidriver.storage.openshift.io/owner-namespace={}",
            self.namespace
        );
        let mut objects = BTreeMap::new();
        let kinds = Kind::ALL.into_iter();
        for kind in kinds.filter(|kind| kind.version(self.versions).is_some()) {
            let api =
                Api::<DynamicObject>::all_with(self.client.clone(), &kind.resource(self.versions));
            for object in api
                .list(&ListParams::default().labels(&labels))
                .await
                .unwrap()
            {
                let title = format!("{} {}", kind.name(), object.name_any());
                objects.insert(title, serde_json::to_value(object).unwrap());
            }
        }
        objects
    }

    /// Kinds and names, without the uid that some names contain.
    pub(crate) async fn titles(&self) -> Vec<String> {
        let uid = self.instance().await["metadata"]["uid"]
            .as_str()
            .unwrap_or("-")
            .to_owned();
        let owned = self.owned().await;
        let title = |title: &String| title.replace(&uid, "UID").replace(&self.namespace, "NS");
        owned.keys().map(title).collect()
    }

    /// Events about instances of this namespace: reason and text. Those that wait to be written are written first,
    /// as at the end of a process.
    pub(crate) async fn events(&self) -> Vec<String> {
        let at_once = CancellationToken::new();
        at_once.cancel();
        self.published.run(at_once).await;
        let resource = resource("", "v1", "Event", "events");
        let api =
            Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let events = api.list(&ListParams::default()).await.unwrap();
        let text = |it: &DynamicObject| {
            format!(
                "{} {}",
                it.data["reason"].as_str().unwrap(),
                it.data["message"]
            )
        };
        events.iter().map(text).collect()
    }

    /// Versions of the instance and of all its objects: what a write would change.
    pub(crate) async fn versions(&self) -> BTreeMap<String, Value> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let mut versions: BTreeMap<_, _> = self
            .owned()
            .await
            .iter()
            .map(|(title, object)| (title.clone(), version(object)))
            .collect();
        versions.insert("instance".to_owned(), version(&self.instance().await));
        versions
    }

    /// What the controllers of Kubernetes and the kubelets would report when all is well.
    pub(crate) async fn make_ready(&self, nodes: usize) {
        self.count_ready(nodes).await;
        for node in 0..nodes {
            self.register(&format!("{}-node-{node}", self.namespace))
                .await;
        }
    }

    /// What the controllers of Kubernetes would report when all pods run.
    pub(crate) async fn count_ready(&self, nodes: usize) {
        let generation = |object: &Value| object["metadata"]["generation"].clone();
        let set = self.get(Kind::DaemonSet, "hostpath-node").await;
        let counts = json!({
            "observedGeneration": generation(&set), "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes,
            "numberReady": nodes, "numberAvailable": nodes, "updatedNumberScheduled": nodes, "numberMisscheduled": 0,
            "numberUnavailable": 0,
        });
        self.patch_status(Kind::DaemonSet, "hostpath-node", counts)
            .await;
        let deployment = self.get(Kind::Deployment, "hostpath-controller").await;
        if !deployment.is_null() {
            let replicas = deployment["spec"]["replicas"].clone();
            let counts = json!({
                "observedGeneration": generation(&deployment), "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas, "unavailableReplicas": 0,
            });
            self.patch_status(Kind::Deployment, "hostpath-controller", counts)
                .await;
        }
    }

    /// A kubelet that knows the driver.
    pub(crate) async fn register(&self, node: &str) {
        let driver = self.instance().await["spec"]["driverName"].clone();
        let document = json!({"metadata": {"name": node}, "spec": {"drivers": [{"name": driver, "nodeID": node}]}});
        let resource = resource("storage.k8s.io", "v1", "CSINode", "csinodes");
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let document = serde_json::from_value(document).unwrap();
        let _ = api.create(&PostParams::default(), &document).await;
    }

    /// Syncs until the instance looks as expected, because facts about the cluster arrive by watches.
    pub(crate) async fn sync_until(
        &mut self,
        what: &str,
        expected: impl Fn(&Value) -> bool,
    ) -> Value {
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            self.sync().await;
            let instance = self.instance().await;
            if expected(&instance) {
                return instance;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not {what}: {:#}", self.instance().await["status"]);
    }
}

async fn new_namespace() -> String {
    let namespace = unique();
    let client = client_of(server(), &Faults::default()).await;
    let document = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    let resource = resource("", "v1", "Namespace", "namespaces");
    let api = Api::<DynamicObject>::all_with(client, &resource);
    api.create(&PostParams::default(), &document).await.unwrap();
    namespace
}

pub(crate) fn condition_of(instance: &Value, about: &str) -> Value {
    let conditions = instance["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions
        .into_iter()
        .find(|it| it["type"] == about)
        .unwrap_or_default()
}

pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}
