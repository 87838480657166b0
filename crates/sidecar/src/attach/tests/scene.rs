//! A driver, objects in an API server, and the role between them.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use devcluster::testing::{ApiServer, Rule};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, Secret},
    storage::v1::{CSINode, VolumeAttachment},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::{Body, ClientBuilder},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use stowage_csi::{
    client::{ClientOptions, Connection},
    endpoint::Endpoint,
    metrics::ClientMetrics,
    proto::csi::{
        CapacityRange, CreateVolumeRequest, controller_client::ControllerClient,
        volume_capability::access_mode::Mode,
    },
    testing::{MemoryDriver, Profile, Serving},
};
use stowage_service::{Health, KubeArgs, Metrics, client::install_crypto_provider};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

use crate::{
    access,
    args::Attach,
    attach::{Setup, run, step::finalizer, worker::Worker},
    cluster::{
        Cluster, attachment::Attachment, attachment::NODE_ID, node::DriverNode, volume::Volume,
    },
    driver::{Driver, DriverOptions, Interest},
    queue::{Backoff, Key},
};

/// No test waits longer for anything.
const SOON: Duration = Duration::from_secs(20);
/// A finalizer of somebody else.
pub(super) const FOREIGN: &str = "example.com/other";

/// One driver and its corner of the cluster: names of all objects begin with its name.
pub(super) struct Scene {
    pub(super) name: String,
    pub(super) driver: MemoryDriver,
    pub(super) metrics: Metrics,
    /// Writes of the role, in order, with the number of calls that had been made: `PATCH persistentvolumes after 0 calls`.
    writes: Arc<Mutex<Vec<String>>>,
    admin: Client,
    attach: Attach,
    backoff: Backoff,
    running: Option<(CancellationToken, JoinHandle<()>)>,
    endpoint: Endpoint,
    _serving: Serving,
    _folder: TempDir,
}

impl Scene {
    pub(super) async fn new() -> Self {
        Self::with(|profile| profile).await
    }

    /// A driver that is not like the others. The role does not run yet.
    pub(super) async fn with(change: impl FnOnce(Profile) -> Profile) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("d{}.test", COUNT.fetch_add(1, Ordering::Relaxed));
        let driver = MemoryDriver::new(change(Profile::named(&name)));
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::try_from(folder.path().join("csi.sock").as_path()).unwrap();
        let second = Duration::from_secs(1);
        let scene = Self {
            _serving: driver.serve(&endpoint).unwrap(),
            name,
            driver,
            metrics: Metrics::new(),
            writes: Arc::default(),
            admin: client(ApiServer::shared().kubeconfig().into(), |_| {}).await,
            attach: Attach {
                workers: 3,
                timeout: Duration::from_secs(15),
                compare_every: None,
            },
            backoff: Backoff {
                first: second,
                longest: second * 300,
            },
            running: None,
            endpoint,
            _folder: folder,
        };
        scene.add_node("north").await;
        scene
    }

    pub(super) fn comparing_every(mut self, time: Duration) -> Self {
        self.attach.compare_every = Some(time);
        self
    }

    pub(super) fn retrying_after(mut self, time: Duration) -> Self {
        self.backoff.first = time;
        self
    }

    pub(super) fn with_timeout(mut self, time: Duration) -> Self {
        self.attach.timeout = time;
        self
    }

    /// Runs the role.
    pub(super) async fn start(&mut self) {
        let (client, stop) = (self.client().await, CancellationToken::new());
        let cluster = self.watch(&client, &stop).await;
        let setup = self.setup(client, cluster).await;
        let running = tokio::spawn(run(setup, stop.clone()));
        self.running = Some((stop, running));
    }

    /// A client that may do what upstream's attacher may, and whose writes are noted down.
    async fn client(&self) -> Client {
        let (writes, driver) = (Arc::clone(&self.writes), self.driver.clone());
        let see = move |request: &http::Request<Body>| {
            if request.method() != http::Method::GET {
                let calls = driver.calls("ControllerPublishVolume")
                    + driver.calls("ControllerUnpublishVolume");
                let line = format!("{} {} after {calls} calls", request.method(), kind(request));
                writes.lock().unwrap().push(line);
            }
        };
        client(attacher(), see).await
    }

    async fn setup(&self, client: Client, cluster: Cluster) -> Setup {
        let options = DriverOptions {
            endpoint: self.endpoint.clone(),
            timeout: SOON,
            metrics: ClientMetrics::default(),
            interest: Interest::Capabilities,
            check: Health::default().check("driver"),
        };
        let connected = Driver::connect(options, &CancellationToken::new()).await;
        let (driver, _) = connected.unwrap().unwrap();
        Setup {
            driver,
            cluster,
            client,
            metrics: self.metrics.clone(),
            settings: self.attach.clone(),
            backoff: self.backoff,
            default_fs_type: String::new(),
            own_node: None,
            error_codes: false,
        }
    }

    /// A worker whose watches have stopped: it knows the cluster as it is now and hears of no change.
    pub(super) async fn deaf_worker(&self) -> Arc<Worker> {
        let (client, stop) = (self.client().await, CancellationToken::new());
        let cluster = self.watch(&client, &stop).await;
        stop.cancel();
        Arc::new(Worker::new(&self.setup(client, cluster).await))
    }

    /// The name of an object, as queues have it.
    pub(super) fn key(&self, name: &str) -> Key {
        self.named(name).into()
    }

    async fn watch(&self, client: &Client, stop: &CancellationToken) -> Cluster {
        let cluster = Cluster::default();
        macro_rules! follow {
            ($field:ident, $kind:ty) => {
                let name = self.name.clone();
                let read = move |wire| <$kind>::read(wire, &name);
                let watched = Arc::clone(&cluster.$field);
                tokio::spawn(watched.follow(client.clone(), read, stop.clone()));
                cluster.$field.synced().await;
            };
        }
        follow!(volumes, Volume);
        follow!(attachments, Attachment);
        follow!(driver_nodes, DriverNode);
        cluster
    }

    pub(super) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        stop.cancel();
        running.await.unwrap();
    }

    /// What the role has written since the last look.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    pub(super) fn finalizer(&self) -> String {
        finalizer(&self.name)
    }

    fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.admin.clone())
    }

    pub(super) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        let created = self
            .api::<K>()
            .create(&PostParams::default(), &object)
            .await;
        created.unwrap()
    }

    pub(super) async fn edit<K>(&self, name: &str, change: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        let patch = Patch::Merge(change);
        let params = PatchParams::default();
        let edited = api.patch(&self.named(name), &params, &patch).await;
        edited.unwrap()
    }

    pub(super) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let (api, params) = (self.api::<K>(), DeleteParams::default());
        api.delete(&self.named(name), &params).await.unwrap();
    }

    /// A CSINode on which the driver calls the node `<node>-id`.
    pub(super) async fn add_node(&self, node: &str) {
        self.create::<CSINode>(json!({
            "metadata": { "name": self.named(node) },
            "spec": { "drivers": [
                { "name": self.name, "nodeID": format!("{node}-id"), "topologyKeys": [] },
            ]},
        }))
        .await;
    }

    pub(super) async fn remove_node(&self, node: &str) {
        self.delete::<CSINode>(node).await;
    }

    /// Calls of others than the role.
    pub(super) fn controller(&self) -> ControllerClient<Connection> {
        let options = ClientOptions {
            timeout: SOON,
            patience: SOON,
            metrics: ClientMetrics::default(),
        };
        ControllerClient::new(Connection::new(&self.endpoint, options))
    }

    /// A volume at the driver; its id.
    async fn make_volume(&self, name: &str) -> String {
        let mode = Mode::MultiNodeMultiWriter.into();
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: 1 << 30,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![access::capability(mode, false, "", &[])],
            ..CreateVolumeRequest::default()
        };
        let created = self.controller().create_volume(request).await;
        created.unwrap().into_inner().volume.unwrap().volume_id
    }

    /// A volume at the driver and its PersistentVolume.
    pub(super) async fn add_volume(&self, name: &str) {
        self.add_volume_with(name, json!({})).await;
    }

    pub(super) async fn add_volume_with(&self, name: &str, csi: Value) {
        let handle = self.make_volume(name).await;
        let mut object = json!({
            "metadata": { "name": self.named(name) },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": { "storage": "1Gi" },
                "csi": csi,
            },
        });
        object["spec"]["csi"]["driver"] = json!(self.name);
        object["spec"]["csi"]["volumeHandle"] = json!(handle);
        self.create::<PersistentVolume>(object).await;
    }

    pub(super) async fn add_secret(&self, name: &str, data: Value) {
        let secrets = Api::<Secret>::namespaced(self.admin.clone(), "default");
        let object = json!({ "metadata": self.secret(name), "stringData": data });
        let object = serde_json::from_value(object).unwrap();
        secrets
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(super) fn secret(&self, name: &str) -> Value {
        json!({ "name": self.named(name).replace('.', "-"), "namespace": "default" })
    }

    /// As the attach/detach controller asks for it.
    pub(super) async fn ask(&self, name: &str, volume: &str, node: &str) {
        self.ask_with(name, volume, node, json!({})).await;
    }

    pub(super) async fn ask_with(&self, name: &str, volume: &str, node: &str, metadata: Value) {
        let mut object = json!({
            "metadata": metadata,
            "spec": {
                "attacher": self.name,
                "nodeName": self.named(node),
                "source": { "persistentVolumeName": self.named(volume) },
            },
        });
        object["metadata"]["name"] = json!(self.named(name));
        self.create::<VolumeAttachment>(object).await;
    }

    pub(super) async fn set_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api::<VolumeAttachment>();
        let params = PatchParams::default();
        let set = api.patch_status(&self.named(name), &params, &patch).await;
        set.unwrap();
    }

    pub(super) async fn attachment(&self, name: &str) -> Option<VolumeAttachment> {
        self.api().get_opt(&self.named(name)).await.unwrap()
    }

    pub(super) async fn volume(&self, name: &str) -> Option<PersistentVolume> {
        self.api().get_opt(&self.named(name)).await.unwrap()
    }

    pub(super) async fn attached(&self, name: &str) -> VolumeAttachment {
        self.becomes(name, |found| {
            found.status.as_ref().is_some_and(|status| status.attached)
        })
        .await
    }

    /// Waits until the attachment is as it should be.
    pub(super) async fn becomes(
        &self,
        name: &str,
        right: impl Fn(&VolumeAttachment) -> bool,
    ) -> VolumeAttachment {
        let mut last = None;
        for _ in 0..400 {
            last = self.attachment(name).await;
            if let Some(found) = last.take_if(|found| right(found)) {
                return found;
            }
            tokio::time::sleep(SOON / 400).await;
        }
        panic!("{name} is {last:#?}");
    }

    pub(super) async fn goes(&self, name: &str) {
        eventually(name, async || self.attachment(name).await.is_none()).await;
    }

    /// What is published, as `volume@node`.
    pub(super) fn published(&self) -> Vec<String> {
        let volumes = self.driver.volumes();
        let name = |id: &str| {
            let found = volumes.iter().find(|volume| volume.id == id);
            found.map_or_else(|| id.to_owned(), |volume| volume.name.clone())
        };
        let all = self.driver.publications().into_iter();
        all.map(|one| format!("{}@{}", name(&one.volume_id), one.node_id))
            .collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.running {
            stop.cancel();
        }
    }
}

pub(super) async fn eventually(what: &str, mut right: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if right().await {
            return;
        }
        tokio::time::sleep(SOON / 400).await;
    }
    panic!("it did not happen: {what}");
}

pub(super) fn node_id(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.annotations().get(NODE_ID).map(String::as_str)
}

pub(super) fn attach_error(attachment: &VolumeAttachment) -> Option<&str> {
    let error = attachment.status.as_ref()?.attach_error.as_ref()?;
    error.message.as_deref()
}

pub(super) fn detach_error(attachment: &VolumeAttachment) -> Option<&str> {
    let error = attachment.status.as_ref()?.detach_error.as_ref()?;
    error.message.as_deref()
}

/// The kubeconfig of a user with the ClusterRole of upstream's attacher, and no other rights.
fn attacher() -> PathBuf {
    static USER: OnceLock<PathBuf> = OnceLock::new();
    let storage = &["storage.k8s.io"];
    let rules = [
        Rule {
            groups: &[""],
            resources: &["persistentvolumes"],
            verbs: &["get", "list", "watch", "patch"],
        },
        Rule {
            groups: storage,
            resources: &["csinodes"],
            verbs: &["get", "list", "watch"],
        },
        Rule {
            groups: storage,
            resources: &["volumeattachments"],
            verbs: &["get", "list", "watch", "patch"],
        },
        Rule {
            groups: storage,
            resources: &["volumeattachments/status"],
            verbs: &["patch"],
        },
        Rule {
            groups: &[""],
            resources: &["secrets"],
            verbs: &["get", "list"],
        },
    ];
    let make = || ApiServer::shared().user("attacher", &rules).unwrap();
    USER.get_or_init(make).clone()
}

/// `volumeattachments/status`, for example.
fn kind(request: &http::Request<Body>) -> String {
    let mut parts = request
        .uri()
        .path()
        .split('/')
        .skip_while(|part| *part != "v1");
    let kind = parts.nth(1).unwrap_or_default();
    match parts.nth(1) {
        Some(part) => format!("{kind}/{part}"),
        None => kind.to_owned(),
    }
}

async fn client(
    kubeconfig: PathBuf,
    see: impl Fn(&http::Request<Body>) + Clone + Send + Sync + 'static,
) -> Client {
    install_crypto_provider();
    let args = KubeArgs {
        kubeconfig: Some(kubeconfig.into()),
    };
    let config = args.config().await.unwrap();
    let layer = MapRequestLayer::new(move |request| {
        see(&request);
        request
    });
    let builder = ClientBuilder::try_from(config).unwrap();
    builder.with_layer(&layer).build()
}
