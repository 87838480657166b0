//! The whole operator, with its watches.

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::events::Events;
use stowage_operator::cluster::Cluster;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::Kind;
use stowage_operator::driver_deployment::{EVENT_COMPONENT, Operator, run};
use stowage_operator::metrics::OperatorMetrics;
use stowage_operator::mounts::Mounts;
use stowage_operator::served::Served;
use stowage_operator::writer::Writer;
use stowage_service::Metrics;
use stowage_testing::{Lent, api_server};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::reconcile::faults::{Faults, Mode};
use crate::reconcile::rig::{PATIENCE, client_of, condition_of, example, own_server, resource};

pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn instances(client: &Client) -> Api<DynamicObject> {
    let resource = kube::api::ApiResource::erase::<CSIDriverDeployment>(&());
    Api::namespaced_with(client.clone(), "default", &resource)
}

pub(crate) async fn children(client: &Client, kind: Kind) -> Api<DynamicObject> {
    let writer = Writer::connect(client.clone(), &Served::default())
        .await
        .unwrap();
    let resource = kind.resource(writer.versions());
    if kind.is_namespaced() {
        Api::namespaced_with(client.clone(), "default", &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

pub(crate) async fn synced(client: &Client, name: &str) -> Value {
    eventually("synced", async || {
        let instance = instances(client).get_opt(name).await.unwrap()?;
        let instance = serde_json::to_value(instance).unwrap();
        let is_current =
            instance["status"]["observedGeneration"] == instance["metadata"]["generation"];
        is_current.then_some(instance)
    })
    .await
}

/// A deleted object comes back, a changed one is as it was.
async fn deleted_and_changed_objects_come_back(client: &Client) {
    let sets = children(client, Kind::DaemonSet).await;
    let uid = sets.get("hostpath-node").await.unwrap().metadata.uid;
    sets.delete("hostpath-node", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the DaemonSet is back", async || {
        let found = sets.get_opt("hostpath-node").await.unwrap()?;
        (found.metadata.uid != uid).then_some(())
    })
    .await;

    let classes = children(client, Kind::VolumeSnapshotClass).await;
    let uid = classes.get("default-s").await.unwrap().metadata.uid;
    classes
        .delete("default-s", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the snapshot class is back", async || {
        let found = classes.get_opt("default-s").await.unwrap()?;
        (found.metadata.uid != uid).then_some(())
    })
    .await;

    let deployments = children(client, Kind::Deployment).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 9}}));
    deployments
        .patch("hostpath-controller", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the change is taken back", async || {
        let found = deployments.get("hostpath-controller").await.unwrap();
        (found.data["spec"]["replicas"] == 1).then_some(())
    })
    .await;
}

/// A kubelet that registers the driver is noticed.
async fn a_registered_driver_is_available(client: &Client) {
    let sets = children(client, Kind::DaemonSet).await;
    let deployments = children(client, Kind::Deployment).await;
    let counts = json!({"status": {
        "observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0,
        "numberReady": 1, "numberAvailable": 1, "updatedNumberScheduled": 1,
    }});
    sets.patch_status(
        "hostpath-node",
        &PatchParams::default(),
        &Patch::Merge(counts),
    )
    .await
    .unwrap();
    let generation = deployments
        .get("hostpath-controller")
        .await
        .unwrap()
        .metadata
        .generation;
    let counts = json!({"status": {
        "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
    }});
    let patch = Patch::Merge(counts);
    deployments
        .patch_status("hostpath-controller", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("not registered", async || {
        let instance =
            serde_json::to_value(instances(client).get("hostpath").await.unwrap()).unwrap();
        (condition_of(&instance, "Available")["reason"] == "NotRegistered").then_some(())
    })
    .await;
    let nodes = resource("storage.k8s.io", "v1", "CSINode", "csinodes");
    let nodes = Api::<DynamicObject>::all_with(client.clone(), &nodes);
    let node = json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "default.example", "nodeID": "n"}]}});
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
    eventually("available", async || {
        let instance =
            serde_json::to_value(instances(client).get("hostpath").await.unwrap()).unwrap();
        (condition_of(&instance, "Available")["status"] == "True").then_some(())
    })
    .await;
}

pub(crate) fn operator(
    client: &Client,
    config: watch::Receiver<OperatorConfig>,
    metrics: &Metrics,
) -> Operator {
    Operator {
        client: client.clone(),
        evictions: client.clone(),
        mounts: Mounts::new(client.clone(), "default"),
        max_concurrent_rollouts: 1,
        namespace: "csi-operator".to_owned(),
        config,
        metrics: OperatorMetrics::register(metrics),
        events: Events::new(client.clone(), EVENT_COMPONENT, metrics),
        rights: stowage_operator::rights::Rights::default(),
        cluster: Cluster::default(),
    }
}

/// The whole operator on a server of its own, and an administrator beside it.
pub(crate) struct Running {
    _server: Lent,
    /// The administrator's client, of which nothing is recorded.
    pub(crate) client: Client,
    /// What the operator asks of the server.
    pub(crate) requests: Faults,
    pub(crate) config: watch::Sender<OperatorConfig>,
    pub(crate) metrics: Metrics,
    shutdown: CancellationToken,
    operator: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::on(own_server()).await
    }

    pub(crate) async fn on(server: Lent) -> Self {
        let requests = Faults::default();
        let observed = client_of(&server, &requests).await;
        let (config, configured) = watch::channel(OperatorConfig::default());
        let (metrics, shutdown) = (Metrics::new(), CancellationToken::new());
        let operator = operator(&observed, configured, &metrics);
        Self {
            client: client_of(&server, &Faults::default()).await,
            _server: server,
            requests,
            config,
            metrics,
            operator: tokio::spawn(run(operator, shutdown.clone())),
            shutdown,
        }
    }

    /// Creates an instance as a user does.
    pub(crate) async fn create(&self, instance: Value) {
        let instance = serde_json::from_value(instance).unwrap();
        let nothing = PostParams::default();
        let created = instances(&self.client).create(&nothing, &instance).await;
        created.unwrap();
    }

    /// Waits until nothing is left to write: who writes again and again never gets there. Returns what was written since
    /// the record was started.
    pub(crate) async fn calm(&self) -> Vec<String> {
        eventually("nothing is left to write", async || {
            let before = self.requests.writes();
            tokio::time::sleep(Duration::from_millis(500)).await;
            (self.requests.writes() == before).then_some(before)
        })
        .await
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.operator.is_finished()
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.operator).await;
        ended.expect("it ends").unwrap().unwrap();
    }
}

/// Nothing is written at rest, and a new configuration is taken up without a restart.
async fn only_what_changes_is_written(running: &Running) {
    running.calm().await;
    running.requests.start(Mode::Off);
    // What would be done now and then is done.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3600)).await;
    tokio::time::resume();
    let config = OperatorConfig::parse("deploymentReplicas: 2").unwrap();
    running.config.send_replace(config);
    let deployments = children(&running.client, Kind::Deployment).await;
    eventually("two replicas", async || {
        let found = deployments.get("hostpath-controller").await.unwrap();
        (found.data["spec"]["replicas"] == 2).then_some(())
    })
    .await;
    eventually("its status is written", async || {
        let told = running.requests.sent("/status?");
        (!told.is_empty()).then_some(())
    })
    .await;
    let mut written = running.calm().await;
    // They are told when there is time.
    written.retain(|it| !it.contains("/events?"));
    let what = [
        "/poddisruptionbudgets?",
        "/hostpath-controller?",
        "/status?",
    ];
    let is_it = |(it, what): (&String, &str)| it.contains(what);
    let is_all = written.len() == what.len() && written.iter().zip(what).all(is_it);
    assert!(is_all, "{written:#?}");
}

/// Its definitions may come later, and whoever does not want to wait for them stops it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_without_definitions_ends_when_it_is_asked_to() {
    let running = Running::on(api_server()).await;
    eventually("it asks for them again", async || {
        let asked = running.requests.sent("/csidriverdeployments");
        (asked.len() >= 2).then_some(())
    })
    .await;
    assert!(!running.is_finished());
    running.stop().await;
}

/// In one thread: time can be put forward only there.
#[tokio::test]
async fn a_running_operator_keeps_a_driver_as_described() {
    let running = Running::start().await;
    let client = running.client.clone();
    let mut instance = example("default");
    instance["spec"]["volumeSnapshotClassTemplates"] = json!([{"metadata": {"name": "default-s"}}]);
    running.create(instance).await;
    synced(&client, "hostpath").await;

    deleted_and_changed_objects_come_back(&client).await;
    a_registered_driver_is_available(&client).await;
    // Counted right after the status is written.
    eventually("counted", async || {
        let text = running.metrics.encode().unwrap();
        let available = r#"stowage_operator_drivers{condition="Available",status="True"} 1"#;
        let ready = r#"name="hostpath",driver="default.example",state="ready"} 1"#;
        (text.contains(available) && text.contains(ready)).then_some(())
    })
    .await;

    only_what_changes_is_written(&running).await;

    instances(&client)
        .delete("hostpath", &DeleteParams::default())
        .await
        .unwrap();
    eventually("gone", async || {
        instances(&client)
            .get_opt("hostpath")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_everywhere()) {
        let labels = kube::api::ListParams::default().labels("stowage.dev/owner-uid");
        let left = children(&client, kind).await.list(&labels).await.unwrap();
        assert!(left.items.is_empty(), "{left:?}");
    }
    running.stop().await;
}
