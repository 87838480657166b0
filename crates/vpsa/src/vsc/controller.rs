//! Start and lease, and the work of the process that leads.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use parking_lot::Mutex;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::watch::{Watched, Watcher};
use stowage_service::client::{self, ClientError};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, LeaseArgs, Process};
use tokio_util::sync::CancellationToken;

use super::allocator::Allocator;
use super::array::Arrays;
use super::attachment::Attachments;
use super::attachment::in_use::Gates;
use super::cipher::Ciphers;
use super::class::Classes;
use super::clients::Clients;
use super::cluster::Cluster;
use super::context::Context;
use super::nodes::{Machine, Nodes, Quiet, Release};
use super::pools::Pools;
use super::queues::Queues;
use super::reserved::Reserved;
use super::snapshot::Snapshots;
use super::volume::Volumes;
use super::write::Writer;

/// The lease of the process that leads.
pub const LEASE: &str = "stowage-vsc";

/// The source of Events, as with Zadara's driver.
const COMPONENT: &str = "zadara-csi";

/// How many objects of a kind are worked on at once: those of an array that does not answer hold up nobody else. How much an
/// array is asked at a time is limited by its client.
const WORKERS: usize = 256;

/// What can be chosen.
pub struct VscOptions {
    /// How long apart each array is looked at.
    pub monitor_interval: Duration,
    /// How long an array may take for one look.
    pub request_timeout: Duration,
    /// How long apart it is looked at what is on each array, and imported.
    pub refresh_period: Duration,
    /// Whether volumes and snapshots that are there already are imported without an annotation.
    pub import_existing: bool,
    /// Whether what is deleted does not stay in the recycle bins of arrays.
    pub empty_recycle_bin: bool,
    /// How arrays are chosen.
    pub allocator: Allocator,
    /// For tokens and CHAP secrets.
    pub ciphers: Ciphers,
    /// Where Secrets are that name no namespace.
    pub namespace: String,
    /// The driver's name, by which Kubernetes knows its attachments.
    pub driver: String,
    /// How long a node may be lost before its pods are moved; never if none.
    pub node_loss: Option<Duration>,
    /// How long apart nodes are looked at.
    pub node_interval: Duration,
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

/// Runs until shutdown. What there is, `cluster` knows already.
pub async fn run(
    options: VscOptions,
    cluster: Arc<Cluster>,
    config: kube::Config,
    lease: &LeaseArgs,
    process: Process,
) -> Result<(), VscError> {
    let elections = Elections::new(config.clone(), lease, &process.metrics)?;
    let plane = Arc::new(ControlPlane {
        ciphers: Arc::new(options.ciphers),
        monitor_interval: options.monitor_interval,
        refresh_period: options.refresh_period,
        request_timeout: options.request_timeout,
        import_existing: options.import_existing,
        empty_recycle_bin: options.empty_recycle_bin,
        allocator: options.allocator,
        namespace: options.namespace,
        driver: options.driver,
        node_loss: options.node_loss,
        node_interval: options.node_interval,
        client: client::connect(config)?,
        cluster,
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
    ciphers: Arc<Ciphers>,
    monitor_interval: Duration,
    refresh_period: Duration,
    request_timeout: Duration,
    import_existing: bool,
    empty_recycle_bin: bool,
    allocator: Allocator,
    namespace: String,
    driver: String,
    node_loss: Option<Duration>,
    node_interval: Duration,
    client: Client,
    cluster: Arc<Cluster>,
    process: Process,
}

impl ControlPlane {
    /// Does the work of a leader. Everything ends with this future.
    async fn work(&self) {
        let stop = self.process.shutdown.child_token();
        // Events are written for longer than the work goes on, which adds some to the last.
        let (events, _events_end) = Events::start(self.client.clone(), COMPONENT, &self.process);
        let _work_ends = stop.clone().drop_guard();
        let queues = Queues::new(self.monitor_interval, &self.process);
        queues.listen(&self.cluster);
        let kinds = self.kinds(&events, &queues, &stop);
        let on_arrays = queues.arrays.run(WORKERS, stop.clone(), |name| {
            let arrays = Arc::clone(&kinds.arrays);
            async move { arrays.reconcile(&name).await }
        });
        let on_classes = queues.classes.run(WORKERS, stop.clone(), |name| {
            let classes = Arc::clone(&kinds.classes);
            async move { classes.reconcile(&name).await }
        });
        let on_volumes = queues.volumes.run(WORKERS, stop.clone(), |name| {
            let volumes = Arc::clone(&kinds.volumes);
            async move { volumes.reconcile(&name).await }
        });
        let on_snapshots = queues.snapshots.run(WORKERS, stop.clone(), |name| {
            let snapshots = Arc::clone(&kinds.snapshots);
            async move { snapshots.reconcile(&name).await }
        });
        let on_attachments = queues.attachments.run(WORKERS, stop.clone(), |name| {
            let attachments = Arc::clone(&kinds.attachments);
            async move { attachments.reconcile(&name).await }
        });
        tokio::join!(
            on_arrays,
            on_classes,
            on_volumes,
            on_snapshots,
            on_attachments,
            Box::pin(stop.run_until_cancelled(kinds.nodes.keep()))
        );
    }

    /// Keeps VSCNodes. Without the right to see Nodes the rest goes on.
    fn nodes(
        &self,
        context: &Arc<Context>,
        events: &Events,
        machines: &Arc<Watched<Machine>>,
        stop: &CancellationToken,
    ) -> Nodes {
        let watcher = Watcher {
            client: self.client.clone(),
            tasks: self.process.tasks.clone(),
            health: self.process.health.clone(),
        };
        watcher.follow(machines, |node: Node| Some(Machine::of(&node)), stop);
        Nodes {
            context: Arc::clone(context),
            machines: Arc::clone(machines),
            release: Release {
                client: self.client.clone(),
                events: events.clone(),
                driver: self.driver.clone(),
                quiet: Quiet::default(),
            },
            patience: self.node_loss,
            interval: self.node_interval,
            reminders: Quiet::default(),
        }
    }

    fn kinds(&self, events: &Events, queues: &Queues, stop: &CancellationToken) -> Kinds {
        let clients = Clients {
            kubernetes: self.client.clone(),
            namespace: self.namespace.clone(),
            ciphers: Arc::clone(&self.ciphers),
            known: Mutex::default(),
        };
        let writer = Writer {
            client: self.client.clone(),
        };
        let context = Arc::new(Context {
            cluster: Arc::clone(&self.cluster),
            clients,
            pools: Pools::default(),
            reserved: Reserved::default(),
            writer,
            events: events.clone(),
            patience: self.request_timeout,
        });
        let arrays = Arrays {
            context: Arc::clone(&context),
            ciphers: Arc::clone(&self.ciphers),
            queues: queues.clone(),
            interval: self.monitor_interval,
            refresh: self.refresh_period,
            import: self.import_existing,
            looks: Mutex::default(),
        };
        let volumes = Volumes {
            context: Arc::clone(&context),
            allocator: self.allocator,
            arrays: queues.arrays.clone(),
            empties_bin: self.empty_recycle_bin,
        };
        let machines = Arc::new(Watched::default());
        Kinds {
            nodes: self.nodes(&context, events, &machines, stop),
            arrays: Arc::new(arrays),
            volumes: Arc::new(volumes),
            classes: Arc::new(Classes {
                context: Arc::clone(&context),
            }),
            snapshots: Arc::new(Snapshots {
                context: Arc::clone(&context),
            }),
            attachments: Arc::new(Attachments {
                context,
                machines,
                gates: Gates::default(),
            }),
        }
    }
}

/// Who keeps which kind.
struct Kinds {
    nodes: Nodes,
    arrays: Arc<Arrays>,
    classes: Arc<Classes>,
    volumes: Arc<Volumes>,
    snapshots: Arc<Snapshots>,
    attachments: Arc<Attachments>,
}
