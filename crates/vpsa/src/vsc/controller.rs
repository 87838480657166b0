//! Start and lease, and the work of the process that leads.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::watch::Watcher;
use stowage_service::client::{self, ClientError};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, LeaseArgs, Process};
use tokio_util::sync::CancellationToken;

use super::allocator::Allocator;
use super::array::Arrays;
use super::cipher::Cipher;
use super::class::Classes;
use super::clients::Clients;
use super::cluster::Cluster;
use super::queues::Queues;
use super::volume::Volumes;
use super::write::Writer;

/// The lease of the process that leads.
pub const LEASE: &str = "stowage-vsc";

/// The source of Events, as with Zadara's driver.
const COMPONENT: &str = "zadara-csi";

/// How many arrays and classes are worked on at once: one that does not answer holds up nobody else.
const WORKERS: usize = 32;

/// What can be chosen.
pub struct VscOptions {
    /// How long apart each array is looked at.
    pub monitor_interval: Duration,
    /// How long an array may take for one look.
    pub request_timeout: Duration,
    /// Whether volumes that are there already are imported without an annotation.
    pub import_existing: bool,
    /// How arrays are chosen.
    pub allocator: Allocator,
    /// For tokens and CHAP secrets.
    pub cipher: Cipher,
    /// Where Secrets are that name no namespace.
    pub namespace: String,
}

/// Why the control plane cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum VscError {
    /// No client for the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The lease was lost.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

/// Runs until shutdown.
pub async fn run(
    options: VscOptions,
    config: kube::Config,
    lease: &LeaseArgs,
    process: Process,
) -> Result<(), VscError> {
    let elections = Elections::new(config.clone(), lease, &process.metrics)?;
    let plane = Arc::new(ControlPlane {
        cipher: Arc::new(options.cipher),
        monitor_interval: options.monitor_interval,
        request_timeout: options.request_timeout,
        import_existing: options.import_existing,
        allocator: options.allocator,
        namespace: options.namespace,
        client: client::connect(config)?,
        process,
    });
    let shutdown = plane.process.shutdown.clone();
    // On the heap: all of the work is in it.
    let work = |lost: CancellationToken| {
        let plane = Arc::clone(&plane);
        // Once it is lost somebody else may be at work already: whatever is under way is dropped at once.
        Box::pin(async move { lost.run_until_cancelled(plane.work()).await })
    };
    elections.lead(LEASE, &shutdown, work).await?;
    Ok(())
}

struct ControlPlane {
    cipher: Arc<Cipher>,
    monitor_interval: Duration,
    request_timeout: Duration,
    import_existing: bool,
    allocator: Allocator,
    namespace: String,
    client: Client,
    process: Process,
}

impl ControlPlane {
    /// Does the work of a leader. Everything ends with this future.
    async fn work(&self) {
        let stop = self.process.shutdown.child_token();
        // Events are written for longer than the work goes on, which adds some to the last.
        let (events, _events_end) = Events::start(self.client.clone(), COMPONENT, &self.process);
        let _work_ends = stop.clone().drop_guard();
        let cluster = Arc::new(Cluster::default());
        let watcher = Watcher {
            client: self.client.clone(),
            tasks: self.process.tasks.clone(),
            health: self.process.health.clone(),
        };
        let following = cluster.follow(&watcher, &stop);
        if stop.run_until_cancelled(following).await.is_none() {
            return;
        }
        let queues = Queues::new(self.monitor_interval, &self.process);
        queues.listen(&cluster);
        let kinds = self.kinds(&cluster, &events);
        let on_volumes = queues.volumes.run(WORKERS, stop.clone(), |name| {
            let volumes = Arc::clone(&kinds.volumes);
            async move { volumes.reconcile(&name).await }
        });
        let on_arrays = queues.arrays.run(WORKERS, stop.clone(), |name| {
            let arrays = Arc::clone(&kinds.arrays);
            async move { arrays.reconcile(&name).await }
        });
        let on_classes = queues.classes.run(WORKERS, stop.clone(), |name| {
            let classes = Arc::clone(&kinds.classes);
            async move { classes.reconcile(&name).await }
        });
        tokio::join!(on_arrays, on_classes, on_volumes);
    }

    fn kinds(&self, cluster: &Arc<Cluster>, events: &Events) -> Kinds {
        let writer = Writer {
            client: self.client.clone(),
        };
        let clients = Arc::new(Clients {
            kubernetes: self.client.clone(),
            namespace: self.namespace.clone(),
            cipher: Arc::clone(&self.cipher),
            known: Mutex::default(),
        });
        let arrays = Arrays {
            cluster: Arc::clone(cluster),
            clients: Arc::clone(&clients),
            writer: writer.clone(),
            events: events.clone(),
            cipher: Arc::clone(&self.cipher),
            interval: self.monitor_interval,
            patience: self.request_timeout,
            import: self.import_existing,
        };
        let classes = Classes {
            cluster: Arc::clone(cluster),
            writer: writer.clone(),
            events: events.clone(),
        };
        let volumes = Volumes {
            cluster: Arc::clone(cluster),
            clients,
            writer,
            events: events.clone(),
            allocator: self.allocator,
            patience: self.request_timeout,
        };
        Kinds {
            arrays: Arc::new(arrays),
            classes: Arc::new(classes),
            volumes: Arc::new(volumes),
        }
    }
}

/// Who keeps which kind.
struct Kinds {
    arrays: Arc<Arrays>,
    classes: Arc<Classes>,
    volumes: Arc<Volumes>,
}
