//! An API server, arrays, and a control plane that can be stopped and started.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::vpsa::{Volume, Vpsa, VscStorageClass};
use stowage_kubernetes::watch::Watcher;
use stowage_service::{Health, LeaseArgs, Metrics, Process, Tasks};
use stowage_sim::vpsa::{Array, Options};
use stowage_testing::Lent;
use stowage_vpsa::vsc::allocator::Allocator;
use stowage_vpsa::vsc::cipher::{Cipher, Ciphers};
use stowage_vpsa::vsc::cluster::Cluster;
use stowage_vpsa::vsc::{self, VscOptions};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::vsc::rights::{ACCOUNT, NAMESPACE, grant};

/// How long anything may take, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// What the sample adds for moving pods.
const NODE_LOSS: &str = include_str!("../../../../../deploy/samples/vpsa-node-loss.yaml");
pub struct Rig {
    server: Lent,
    config: Config,
    pub client: Client,
    /// Pods are moved from nodes that are lost for longer.
    pub node_loss: Option<Duration>,
    /// How long apart nodes are looked at.
    pub node_interval: Duration,
    /// How long an array may take for one look.
    pub request_timeout: Duration,
    /// How long apart each array is looked at.
    pub monitor_interval: Duration,
    /// How arrays are chosen.
    pub allocator: Allocator,
    /// Volumes and Snapshots are not seen, as by watches that are far behind.
    pub is_behind: bool,
    /// What is on arrays already is imported.
    pub import: bool,
    /// What is deleted does not stay in recycle bins, so that whatever is left is seen.
    pub empty_recycle_bin: bool,
    /// Letters of which keys are made: the first writes.
    pub keys: &'static [&'static str],
    plane: Option<(CancellationToken, JoinHandle<()>)>,
}

/// Only here to get the defaults from where they are written.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    lease: LeaseArgs,
}

impl Rig {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A rig whose control plane is another.
    pub async fn with(change: impl FnOnce(&mut Self)) -> Self {
        stowage_service::client::install_crypto_provider();
        let filter = "warn,stowage=debug";
        // Shown for tests that fail.
        let _ = tracing_subscriber::fmt()
            .with_test_writer()
            .with_env_filter(filter)
            .try_init();
        let server = stowage_testing::api_server_with(&["storage.zadara.com.yaml"]);
        grant(&server);
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        let mut rig = Self {
            client: Client::try_from(config.clone()).unwrap(),
            server,
            config,
            node_loss: None,
            node_interval: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            monitor_interval: Duration::from_millis(500),
            allocator: Allocator::default(),
            is_behind: false,
            import: true,
            empty_recycle_bin: true,
            keys: &["k"],
            plane: None,
        };
        change(&mut rig);
        if rig.node_loss.is_some() {
            rig.apply(NODE_LOSS);
        }
        rig.start_plane();
        rig
    }

    fn cipher(&self, kind: &str) -> Cipher {
        let key =
            |letter: &&str| SecretString::from(format!("{kind}{}", letter.repeat(32 - kind.len())));
        let keys: Vec<SecretString> = self.keys.iter().map(key).collect();
        Cipher::new(&keys).unwrap()
    }

    pub fn start_plane(&mut self) {
        let shutdown = CancellationToken::new();
        let process = Process {
            health: Health::default(),
            metrics: Metrics::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        let options = VscOptions {
            monitor_interval: self.monitor_interval,
            refresh_period: Duration::from_secs(2),
            request_timeout: self.request_timeout,
            import_existing: self.import,
            empty_recycle_bin: self.empty_recycle_bin,
            allocator: self.allocator,
            ciphers: Ciphers {
                tokens: self.cipher(""),
                chap: self.cipher("c"),
            },
            namespace: NAMESPACE.to_owned(),
            driver: "csi.zadara.com".to_owned(),
            node_loss: self.node_loss,
            node_interval: self.node_interval,
        };
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(ACCOUNT.to_owned());
        let is_behind = self.is_behind;
        let task = tokio::spawn(async move {
            let flags = Flags::parse_from([
                "vsc",
                "--leader-election",
                "--leader-election-namespace=csi-vpsa",
            ]);
            let watcher = Watcher {
                client: Client::try_from(config.clone()).unwrap(),
                tasks: process.tasks.clone(),
                health: process.health.clone(),
            };
            let mut cluster = Cluster::default();
            cluster.follow(&watcher, &process.shutdown).await;
            if is_behind {
                cluster.volumes = Arc::default();
                cluster.snapshots = Arc::default();
            }
            vsc::run(options, Arc::new(cluster), config, &flags.lease, process)
                .await
                .unwrap();
        });
        self.plane = Some((shutdown, task));
    }

    /// Stops the control plane as SIGTERM does.
    pub async fn stop_plane(&mut self) {
        let (shutdown, task) = self.plane.take().unwrap();
        shutdown.cancel();
        task.await.unwrap();
    }

    /// A table as people see it.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.server.kubectl(arguments).unwrap()
    }

    pub fn apply(&self, manifest: &str) {
        let apply = ["apply", "-f", "-"];
        self.server.kubectl_with_input(&apply, manifest).unwrap();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>()
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    pub async fn class(&self, name: &str, more: Value) {
        let mut spec = json!({"displayName": name});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VSCStorageClass",
            "metadata": {"name": name}, "spec": spec});
        self.create::<VscStorageClass>(object).await;
    }

    pub async fn vpsa(&self, name: &str, class: &str, array: &Array) {
        let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA", "metadata": {"name": name},
            "spec": {"VSCStorageClassName": class, "displayName": name, "hostname": array.hostname(),
                "token": array.access_key(), "tls": {"enabled": false}}});
        self.create::<Vpsa>(object).await;
    }

    pub async fn volume(&self, name: &str, size: &str, more: Value) {
        let mut spec = json!({"VSCStorageClassName": "gold", "displayName": name, "size": size, "volumeType": "NAS"});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "Volume", "metadata": {"name": name}, "spec": spec});
        self.create::<Volume>(object).await;
    }

    pub async fn patch_status<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let patch = Patch::Merge(patch);
        self.api::<K>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let patch = Patch::Merge(patch);
        self.api::<K>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api::<K>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// The object as JSON, once it is so.
    pub async fn until<K>(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let object = self.api::<K>().get_opt(name).await.unwrap();
            let object = serde_json::to_value(object).unwrap();
            if holds(&object) {
                return object;
            }
            assert!(Instant::now() < deadline, "{object:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A VPSA, once it is in this state for this reason.
    pub async fn vpsa_is(&self, name: &str, state: &str, reason: &str) -> Value {
        self.until::<Vpsa>(name, |it| {
            it["status"]["state"] == state && it["status"]["conditions"][0]["reason"] == reason
        })
        .await
    }

    /// The message of an Event about an object, once there is one with this reason.
    pub async fn event(&self, name: &str, reason: &str) -> String {
        let event = self.whole_event(name, reason).await;
        event.message.unwrap_or_default()
    }

    /// The same of a Warning.
    pub async fn warning(&self, name: &str, reason: &str) -> String {
        let event = self.whole_event(name, reason).await;
        assert_eq!(event.type_.as_deref(), Some("Warning"), "{event:?}");
        event.message.unwrap_or_default()
    }

    async fn whole_event(&self, name: &str, reason: &str) -> Event {
        let events: Api<Event> = Api::all(self.client.clone());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let mut found = all.iter().filter(|event| {
                event.involved_object.name.as_deref() == Some(name)
                    && event.reason.as_deref() == Some(reason)
            });
            if let Some(event) = found.next() {
                return event.clone();
            }
            assert!(Instant::now() < deadline, "no Event {reason} about {name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// An array.
pub async fn array(change: impl FnOnce(&mut Options)) -> (Array, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path().join("data"));
    change(&mut options);
    (Array::start(options).await.unwrap(), directory)
}
