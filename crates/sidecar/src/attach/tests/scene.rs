//! A driver, objects in an API server, and the role between them.

mod client;
mod objects;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_kubernetes::queue::{Backoff, Key};
use stowage_memory_driver::{MemoryDriver, Profile, Serving};
use stowage_service::{Health, Metrics};
use stowage_stage::SOON;
use stowage_testing::{shared, unique};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::client::{attacher, client, kind};
pub(super) use self::objects::{attach_error, detach_error, node_id};
use crate::args::Attach;
use crate::attach::step::finalizer;
use crate::attach::worker::Worker;
use crate::attach::{Setup, run};
use crate::cluster::Cluster;
use crate::cluster::attachment::Attachment;
use crate::cluster::node::CsiNode;
use crate::cluster::volume::Volume;
use crate::driver::{Driver, DriverOptions, Interest};

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
        let name = format!("d{}.test", unique());
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
            admin: client(shared().kubeconfig().into(), |_| {}).await,
            attach: Attach {
                workers: 3,
                timeout: Duration::from_secs(15),
                compare_every: None,
                page: 0,
                retry: Backoff {
                    first: second,
                    longest: second * 300,
                },
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

    pub(super) fn listing_by(mut self, page: i32) -> Self {
        self.attach.page = page;
        self
    }

    pub(super) fn retrying_after(mut self, time: Duration) -> Self {
        self.attach.retry.first = time;
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
                writes.lock().push(line);
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
                tokio::spawn(watched.follow(
                    client.clone(),
                    read,
                    Health::default().check("watch"),
                    stop.clone(),
                ));
                cluster.$field.synced().await;
            };
        }
        follow!(volumes, Volume);
        follow!(attachments, Attachment);
        follow!(csi_nodes, CsiNode);
        cluster
    }

    pub(super) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        stop.cancel();
        running.await.unwrap();
    }

    /// What the role has written since the last look.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.writes.lock())
    }

    pub(super) fn finalizer(&self) -> String {
        finalizer(&self.name)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some((stop, _)) = &self.running {
            stop.cancel();
        }
    }
}

pub(super) async fn eventually(what: &str, right: impl AsyncFn() -> bool) {
    stowage_stage::eventually(what, async || right().await.then_some(())).await;
}
