//! A driver in memory, a sidecar beside it, and the cluster they work for.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use clap::Parser;
use devcluster::testing::ControlPlane;
use k8s_openapi::api::{
    core::v1::{Event, Namespace, PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use stowage_csi::{
    endpoint::Endpoint,
    testing::{MemoryDriver, Profile, Serving},
};
use stowage_service::{Health, Metrics, Tasks, client};
use stowage_sidecar::controller::{self, ControllerArgs, ControllerError, Process};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes, shorter than a person's patience.
pub const SOON: Duration = Duration::from_secs(30);

/// A driver of its own name in a namespace of its own.
pub struct Rig {
    pub plane: &'static ControlPlane,
    pub driver: MemoryDriver,
    pub name: String,
    pub namespace: String,
    pub client: Client,
    pub directory: TempDir,
    serving: Option<Serving>,
}

/// A sidecar that runs in this process.
pub struct Sidecar {
    pub health: Health,
    pub metrics: Metrics,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), ControllerError>>,
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ControllerArgs,
}

impl Rig {
    /// A rig whose driver can do everything but what `change` takes away.
    pub async fn new(change: impl FnOnce(Profile) -> Profile) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rig{number}-{}.stowage.test", std::process::id());
        let namespace = format!("rig{number}-{}", std::process::id());
        let plane = tokio::task::spawn_blocking(ControlPlane::shared)
            .await
            .unwrap();
        let client = connect(plane).await;
        let object = json!({"metadata": {"name": namespace}});
        create::<Namespace>(&Api::all(client.clone()), object).await;
        let mut rig = Self {
            plane,
            driver: MemoryDriver::new(change(Profile::named(&name))),
            name,
            namespace,
            client,
            directory: tempfile::tempdir().unwrap(),
            serving: None,
        };
        rig.serve();
        rig
    }

    pub fn endpoint(&self) -> Endpoint {
        let path = self.directory.path().join("csi.sock");
        Endpoint::try_from(path.as_path()).unwrap()
    }

    /// Starts the driver, again if need be.
    pub fn serve(&mut self) {
        self.serving = Some(self.driver.serve(&self.endpoint()).unwrap());
    }

    /// Takes the driver away.
    pub async fn stop_driver(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().await;
        }
    }

    /// Starts a sidecar with these flags.
    pub fn sidecar(&self, flags: &[&str]) -> Sidecar {
        let kubeconfig = self.plane.kubeconfig().to_str().unwrap().to_owned();
        self.sidecar_as(&kubeconfig, flags)
    }

    /// Starts a sidecar that is somebody else than the administrator.
    pub fn sidecar_as(&self, kubeconfig: &str, flags: &[&str]) -> Sidecar {
        let mut words = vec![
            "controller".to_owned(),
            format!("--csi-address={}", self.endpoint()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--leader-election-namespace={}", self.namespace),
            "--health-port=0".to_owned(),
        ];
        words.extend(flags.iter().map(ToString::to_string));
        let args = Command::parse_from(words).args;
        let (health, metrics, shutdown) =
            (Health::default(), Metrics::new(), CancellationToken::new());
        let process = Process {
            health: health.clone(),
            metrics: metrics.clone(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        Sidecar {
            health,
            metrics,
            shutdown,
            running: tokio::spawn(controller::run(args, process)),
        }
    }

    /// A storage class of this driver; its name is also the driver's.
    pub async fn class(&self, more: Value) {
        let mut object = json!({
            "metadata": {"name": self.name},
            "provisioner": self.name,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        });
        merge(&mut object, more);
        create::<StorageClass>(&Api::all(self.client.clone()), object).await;
    }

    /// A claim of 1 GiB of this rig's class.
    pub async fn claim(&self, name: &str, more: Value) -> PersistentVolumeClaim {
        let mut object = json!({
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        merge(&mut object, more);
        create(&self.claims(), object).await
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Waits until a claim is bound, and returns its volume.
    pub async fn bound(&self, name: &str) -> PersistentVolume {
        let claims = self.claims();
        let volume = eventually(&format!("claim {name} is bound"), async || {
            let claim = claims.get(name).await.unwrap();
            let phase = claim.status.and_then(|status| status.phase);
            (phase.as_deref() == Some("Bound")).then(|| claim.spec.unwrap().volume_name.unwrap())
        })
        .await;
        self.volumes().get(&volume).await.unwrap()
    }

    pub async fn delete_claim(&self, name: &str) {
        let params = DeleteParams::default();
        self.claims().delete(name, &params).await.unwrap();
    }

    /// The objects of this driver's volumes.
    pub async fn own_volumes(&self) -> Vec<PersistentVolume> {
        let all = self.volumes().list(&Default::default()).await.unwrap();
        let ours = |volume: &PersistentVolume| {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            csi.is_some_and(|csi| csi.driver == self.name)
        };
        all.into_iter().filter(ours).collect()
    }

    /// Waits until neither driver nor cluster has a volume.
    pub async fn nothing_left(&self) {
        eventually("nothing is left", async || {
            let gone = self.driver.volumes().is_empty() && self.own_volumes().await.is_empty();
            gone.then_some(())
        })
        .await;
    }

    /// Waits for an event about an object, and returns its message.
    pub async fn event(&self, object: &str, reason: &str) -> String {
        let events = Api::<Event>::all(self.client.clone());
        eventually(&format!("event {reason} about {object}"), async || {
            let all = events.list(&Default::default()).await.unwrap();
            let found = all.into_iter().find(|event| {
                event.involved_object.name.as_deref() == Some(object)
                    && event.reason.as_deref() == Some(reason)
            });
            found.and_then(|event| event.message)
        })
        .await
    }
}

impl Sidecar {
    /// Asks it to stop, and waits.
    pub async fn stop(self) -> Result<(), ControllerError> {
        self.shutdown.cancel();
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Result<(), ControllerError> {
        tokio::time::timeout(SOON, self.running)
            .await
            .expect("the sidecar does not end")
            .unwrap()
    }

    /// Ends it like a `kill -9`: nothing is finished, nothing is handed over.
    pub async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
        self.shutdown.cancel();
    }
}

async fn connect(plane: &ControlPlane) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    client::connect(config.unwrap()).unwrap()
}

pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, more) => *object = more,
    }
}

/// Waits until `look` finds something.
pub async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let give_up = Instant::now() + SOON;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < give_up, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
