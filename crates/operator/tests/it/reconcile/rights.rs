//! An operator that may not see everything says which rule is missing, and goes on once it is granted.

use devcluster::testing::ApiServer;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::events::Events;
use stowage_operator::cluster::Cluster;
use stowage_operator::config::OperatorConfig;
use stowage_operator::driver::rbac::operator_rules;
use stowage_operator::driver_deployment::{self, EVENT_COMPONENT, run};
use stowage_operator::metrics::OperatorMetrics;
use stowage_operator::mounts::Mounts;
use stowage_operator::rights::Rights;
use stowage_service::Health;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::reconcile::faults::Faults;
use crate::reconcile::rig::{client_of, condition_of, example, own_server};
use crate::reconcile::running::{eventually, instances};

const USER: &str = "weak";

/// Lets the operator do everything but look at one resource.
fn grant_all_but(server: &ApiServer, hidden: Option<&str>) {
    let rules: Vec<Value> = operator_rules()
        .into_iter()
        .filter(|rule| hidden.is_none_or(|hidden| rule["resources"][0] != hidden))
        .collect();
    let group = "rbac.authorization.k8s.io";
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": USER}, "rules": rules},
        {
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": USER},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": USER},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        },
    ]});
    server
        .kubectl_with_input(&["apply", "-f", "-"], &list.to_string())
        .unwrap();
}

async fn client_of_weak(server: &ApiServer) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig_of(USER).unwrap()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Waits for the condition's status, and returns the condition.
async fn synced(client: &Client, expected: &str) -> Value {
    eventually(&format!("SyncSuccessful {expected}"), async || {
        let instance = instances(client).get("hostpath").await.unwrap();
        let instance = serde_json::to_value(instance).unwrap();
        let condition = condition_of(&instance, "SyncSuccessful");
        (condition["status"] == expected).then_some(condition)
    })
    .await
}

/// An operator that runs as the user.
struct Operator {
    metrics: stowage_service::Metrics,
    health: Health,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), ServerError>>,
    keeping: JoinHandle<()>,
    _config: watch::Sender<OperatorConfig>,
}

impl Operator {
    async fn start(server: &ApiServer) -> Self {
        let client = client_of_weak(server).await;
        let (config, configured) = watch::channel(OperatorConfig::default());
        let (metrics, health) = (stowage_service::Metrics::new(), Health::default());
        let (check, measured) = (health.check("rights"), OperatorMetrics::register(&metrics));
        let rights = Rights::default();
        let (kept, asking, noting) = (rights.clone(), client.clone(), measured.clone());
        let keeping = tokio::spawn(async move { kept.keep(asking, &check, &noting).await });
        let shutdown = CancellationToken::new();
        let operator = driver_deployment::Operator {
            events: Events::new(client.clone(), EVENT_COMPONENT, &metrics),
            evictions: client.clone(),
            mounts: Mounts::new(client.clone(), "default"),
            max_concurrent_rollouts: 1,
            namespace: "csi-operator".to_owned(),
            client,
            config: configured,
            metrics: measured,
            rights,
            cluster: Cluster::default(),
        };
        let running = run(operator, shutdown.clone());
        Self {
            metrics,
            health,
            shutdown,
            running: tokio::spawn(running),
            keeping,
            _config: config,
        }
    }

    fn is_ready(&self) -> bool {
        self.health.report().is_ready()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
        self.keeping.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_everywhere_and_its_grant_is_noticed() {
    let server = own_server();
    let client = client_of(&server, &Faults::default()).await;
    let instance = serde_json::from_value(example("default")).unwrap();
    instances(&client)
        .create(&PostParams::default(), &instance)
        .await
        .unwrap();

    // Without the volumes it cannot decide anything.
    grant_all_but(&server, Some("persistentvolumes"));
    let operator = Operator::start(&server).await;
    let missing = "the operator's account may not list persistentvolumes, watch persistentvolumes";
    let condition = synced(&client, "False").await;
    assert_eq!(condition["reason"], "Forbidden");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with(missing), "{message}");
    assert!(!operator.is_ready());
    let report = operator.health.report().verbose();
    assert!(report.contains(missing), "{report}");
    let gauge =
        r#"stowage_operator_missing_rights{group="",resource="persistentvolumes",verb="list"} 1"#;
    assert!(operator.metrics.encode().unwrap().contains(gauge));

    grant_all_but(&server, None);
    synced(&client, "True").await;
    eventually("ready", async || operator.is_ready().then_some(())).await;
    let metrics = operator.metrics.encode().unwrap();
    assert!(!metrics.contains("missing_rights{"), "{metrics}");
    operator.stop().await;

    // Without the pods it can do its work, but does not see what becomes of it.
    grant_all_but(&server, Some("pods"));
    let operator = Operator::start(&server).await;
    let condition = synced(&client, "False").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("may not list pods, watch pods"),
        "{message}"
    );
    grant_all_but(&server, None);
    synced(&client, "True").await;
    operator.stop().await;
}
