//! Start and lease, and the work of the process that leads.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::queue::{Backoff, Queue};
use stowage_kubernetes::store::Change;
use stowage_kubernetes::watch::Watcher;
use stowage_service::client::{self, ClientError};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, LeaseArgs, Process};
use tokio_util::sync::CancellationToken;

use super::array::Arrays;
use super::cipher::Cipher;
use super::class::Classes;
use super::clients::Clients;
use super::cluster::Cluster;
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
        let (arrays, classes) = self.kinds(&cluster, events);
        let (arrays, classes) = (Arc::new(arrays), Arc::new(classes));
        let on_arrays = queues.arrays.run(WORKERS, stop.clone(), |name| {
            let arrays = Arc::clone(&arrays);
            async move { arrays.reconcile(&name).await }
        });
        let on_classes = queues.classes.run(WORKERS, stop.clone(), |name| {
            let classes = Arc::clone(&classes);
            async move { classes.reconcile(&name).await }
        });
        tokio::join!(on_arrays, on_classes);
    }

    fn kinds(&self, cluster: &Arc<Cluster>, events: Events) -> (Arrays, Classes) {
        let writer = Writer {
            client: self.client.clone(),
        };
        let clients = Clients {
            kubernetes: self.client.clone(),
            namespace: self.namespace.clone(),
            cipher: Arc::clone(&self.cipher),
            known: Mutex::default(),
        };
        let arrays = Arrays {
            cluster: Arc::clone(cluster),
            clients: Arc::new(clients),
            writer: writer.clone(),
            events: events.clone(),
            cipher: Arc::clone(&self.cipher),
            interval: self.monitor_interval,
            patience: self.request_timeout,
            import: self.import_existing,
        };
        let classes = Classes {
            cluster: Arc::clone(cluster),
            writer,
            events,
        };
        (arrays, classes)
    }
}

/// Where work waits, by the names of objects.
#[derive(Clone)]
struct Queues {
    arrays: Queue,
    classes: Queue,
}

impl Queues {
    fn new(interval: Duration, process: &Process) -> Self {
        let backoff = Backoff {
            first: Duration::from_secs(1).min(interval),
            longest: interval,
        };
        let queue = |name| {
            let make = |registry: &mut Registry| Queue::new(name, backoff, registry);
            process.metrics.with_registry(make)
        };
        Self {
            arrays: queue("vsc-vpsa"),
            classes: queue("vsc-class"),
        }
    }

    /// Adds what changes, from now on.
    fn listen(&self, cluster: &Arc<Cluster>) {
        let queues = self.clone();
        cluster.arrays.listen(move |change| {
            let class = |array: &stowage_api::vpsa::Vpsa| {
                queues
                    .classes
                    .add(array.spec.vsc_storage_class_name.as_str());
            };
            if let Change::Set { old: Some(old), .. } = change {
                class(&old.object);
            }
            class(&change.object().object);
            if wants_work(change, |it| &it.object.metadata) {
                queues.arrays.add(name(&change.object().object.metadata));
            }
        });
        let (queues, all) = (self.clone(), Arc::downgrade(cluster));
        cluster.classes.listen(move |change| {
            let metadata = &change.object().object.metadata;
            if !wants_work(change, |it| &it.object.metadata) {
                return;
            }
            let Some(all) = all.upgrade() else {
                return;
            };
            for member in all.members(name(metadata)) {
                queues.arrays.add(name(&member.object.metadata));
            }
            // Another default may be the only one now, or no longer.
            for class in all.classes.store().all() {
                queues.classes.add(name(&class.object.metadata));
            }
        });
        self.listen_to_users(cluster);
    }

    /// An array and a class that are to go wait for those who use them.
    fn listen_to_users(&self, cluster: &Arc<Cluster>) {
        let queues = self.clone();
        cluster.volumes.listen(move |change| {
            if let Change::Gone(last) = change {
                let status = last.object.status.as_ref();
                queues
                    .classes
                    .add(last.object.spec.vsc_storage_class_name.as_str());
                status.inspect(|status| queues.arrays.add(status.vpsa_id.as_str()));
            }
        });
        let queues = self.clone();
        cluster.snapshots.listen(move |change| {
            if let Change::Gone(last) = change {
                let array = last
                    .object
                    .status
                    .as_ref()
                    .and_then(|it| it.vpsa_id.as_deref());
                array.inspect(|array| queues.arrays.add(*array));
            }
        });
    }
}

type Metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn name(metadata: &Metadata) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Whether a change is more than a status, which we wrote ourselves.
fn wants_work<T>(change: &Change<T>, metadata: impl Fn(&T) -> &Metadata) -> bool {
    let Change::Set {
        old: Some(old),
        new,
    } = change
    else {
        return true;
    };
    let (old, new) = (metadata(old), metadata(new));
    old.uid != new.uid
        || old.generation != new.generation
        || old.deletion_timestamp != new.deletion_timestamp
        || old.annotations != new.annotations
        || old.finalizers != new.finalizers
}
