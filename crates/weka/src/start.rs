//! From the flags to a driver that serves.

mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stowage_csi::locks::VolumeLocks;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::server::{ServeError, Shutdown, Socket, SocketError, serve};
use stowage_host::exec::{Exec, HostExec};
use stowage_host::mount::{HostMounter, Mounter};
use stowage_host::stat::Stats;
use stowage_host::workers::Workers;
use stowage_kubernetes::events::Events;
use stowage_service::client::{ClientError, connect};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, Health, KubeArgs, LeaseArgs};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::routes::routes;
use crate::args::Args;
use crate::config::{Config, FlagError};
use crate::driver::client::{ChosenContainers, LocalClient};
use crate::driver::concurrency::ConcurrencyLimits;
use crate::driver::inventory::Inventory;
use crate::driver::mounts::Mounts;
use crate::driver::nfs::NfsAccess;
use crate::driver::node::labels;
use crate::driver::node::names::KubernetesNames;
use crate::driver::promised::Promises;
use crate::driver::room::Growing;
use crate::driver::sources::Sources;
use crate::driver::trash::Trash;
use crate::driver::{Driver, MOST_THREADS};
use crate::error::{Error, chain};
use crate::metrics::Metrics;
use crate::rest::Clusters;
use crate::rest::client::ClientOptions;
use crate::rest::clusters::LegacySecret;
use crate::selinux::Kernel;

/// How long background work may take to end.
const BACKGROUND_GRACE: Duration = Duration::from_secs(5);

/// Every pod has it.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";

/// Why the driver does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Flags that are not valid.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// Labels or annotations need Kubernetes.
    #[error(
        "--managenodetopologylabels and --allowmountoptionoverrides need access to the Kubernetes API"
    )]
    Kubernetes(#[from] ClientError),
    /// Filesystems would be visible to others.
    #[error(
        "the directory of --mount-base cannot be hidden from other pods: {0}; run the driver as root in a privileged container"
    )]
    MountBase(String),
    /// Controllers cannot choose one of them.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Serving ended by itself.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Where a process reports about itself.
pub struct Reports {
    /// Calls.
    pub server: ServerMetrics,
    /// The driver's work.
    pub weka: Metrics,
    /// Everything else.
    pub process: stowage_service::Metrics,
    /// Readiness: of the Weka client on nodes.
    pub health: Health,
}

/// Serves the driver until `shutdown`.
pub async fn run(args: Args, reports: Reports, shutdown: Shutdown) -> Result<(), StartError> {
    stowage_service::client::install_crypto_provider();
    let kube = args.kube.clone();
    let config = Config::try_from(args)?;
    let driver = Arc::new(assemble(config, &kube, &reports).await?);
    let unhidden = |error: Error| StartError::MountBase(chain(&error));
    driver.mounts.hide().await.map_err(unhidden)?;
    let socket = Socket::bind(&driver.config.serving.endpoint)?;
    tracing::info!(
        driver = driver.config.serving.driver_name,
        node = driver.config.node,
        endpoint = %driver.config.serving.endpoint,
        mode = ?driver.config.serving.mode,
        "The driver is serving."
    );
    start_background(&driver, &reports.health);
    start_figures(&driver, &kube, &reports.process).await?;
    let served = serve(socket, routes(&driver), reports.server, shutdown).await;
    driver.stop.cancel();
    driver.tasks.close();
    if timeout(BACKGROUND_GRACE, driver.tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!("Background work was cut off; the next start continues it.");
    }
    driver.mounts.unmount_all().await;
    driver.mounts.unhide().await;
    Ok(served?)
}

async fn assemble(
    config: Config,
    kube: &KubeArgs,
    reports: &Reports,
) -> Result<Driver, StartError> {
    let metrics = reports.weka.clone();
    let is_node = config.serving.mode.has_node();
    let kube = kubernetes(&config, kube).await?;
    let events = kube
        .clone()
        .filter(|_| config.serving.mode.has_controller())
        .map(|client| Events::new(client, &config.serving.driver_name, &reports.process));
    let zones = if is_node {
        labels::zones(kube.as_ref(), &config.node).await
    } else {
        BTreeMap::new()
    };
    let exec: Arc<dyn Exec> = Arc::new(HostExec);
    let stats = Arc::new(Stats::default());
    let mounter: Arc<dyn Mounter> = Arc::new(HostMounter::new(exec, stats.clone()));
    let workers = Workers::new(MOST_THREADS);
    let client = LocalClient {
        files: config.client_files.clone(),
        configured: config.container.clone(),
        node: config.node.clone(),
        workers: workers.clone(),
        chosen: ChosenContainers::default(),
    };
    let has_figures = config.serving.mode.has_controller() && config.figures.is_on;
    let inventory = kube.clone().filter(|_| has_figures).map(Inventory::new);
    Ok(Driver {
        inventory: inventory.map(Arc::new),
        clusters: Arc::new(clusters(&config, metrics.clone())),
        mounts: Arc::new(mounts(&config, mounter.clone(), client.clone())),
        mounter,
        stats,
        client,
        workers,
        locks: VolumeLocks::default(),
        concurrency: ConcurrencyLimits::new(config.concurrency, metrics.clone()),
        trash: Trash::default(),
        promises: Promises::default(),
        growing: Growing::default(),
        sources: Sources::default(),
        metrics,
        names: KubernetesNames::default(),
        kube,
        events,
        zones,
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
        config,
    })
}

/// The mounts of this process, labelled for SELinux if that is wanted. A node that is not what it is taken for is warned of.
fn mounts(config: &Config, mounter: Arc<dyn Mounter>, client: LocalClient) -> Mounts {
    let nfs = NfsAccess::new(config.nfs.clone(), config.node.clone());
    if let Some(address) = nfs.other_network() {
        tracing::warn!(
            node = config.node,
            %address,
            "The driver may mount by NFS, but its pod has a network of its own: mounts hang as soon as the pod is replaced, and the cluster sees another address than the node's. Set `hostNetwork: true` in the pod template."
        );
    }
    let mounts = Mounts::new(
        config.mount_base.clone(),
        mounter,
        client,
        nfs,
        config.vocabulary.clone(),
        config.call_time,
    );
    let kernel = Kernel::look(&config.proc_filesystems);
    // A controller may be on any node, and reaches volumes without labels, too.
    let is_asked = config.serving.mode.has_node() || config.labels_mounts;
    let mismatch = kernel.mismatch(config.labels_mounts);
    if let Some(mismatch) = mismatch.filter(|_| is_asked) {
        tracing::warn!(node = config.node, "{mismatch}");
    }
    if config.labels_mounts {
        mounts.labelled(kernel)
    } else {
        mounts
    }
}

fn clusters(config: &Config, metrics: Metrics) -> Clusters {
    let legacy = LegacySecret {
        directory: config.legacy_directory.clone(),
        name: config.legacy_secret_name.clone(),
    };
    let options = ClientOptions {
        insecure: config.insecure_https,
        rotate: config.rotate_endpoints,
        timeout: config.api_time,
    };
    Clusters::new(options, legacy, metrics)
}

/// A client of Kubernetes. A node that writes labels or reads annotations needs one; a controller, which only warns of
/// things, has one where it is told of a cluster or runs in it.
async fn kubernetes(config: &Config, kube: &KubeArgs) -> Result<Option<kube::Client>, ClientError> {
    let mode = config.serving.mode;
    if mode.has_node() && (config.labels || config.overrides) {
        return Ok(Some(connect(kube.config().await?)?));
    }
    let is_told = kube.kubeconfig.is_some() || std::env::var_os(IN_CLUSTER).is_some();
    if !(mode.has_controller() && is_told) {
        return Ok(None);
    }
    let client = match kube.config().await {
        Ok(found) => connect(found),
        Err(error) => Err(error),
    };
    if let Err(error) = &client {
        let error = chain(error);
        tracing::info!(
            error,
            "There is no access to Kubernetes; warnings are logged only."
        );
    }
    Ok(client.ok())
}

/// Starts what runs beside the calls.
fn start_background(driver: &Arc<Driver>, health: &Health) {
    let (clusters, stop) = (driver.clusters.clone(), driver.stop.clone());
    let every = driver.config.release_refresh;
    driver
        .tasks
        .spawn(async move { clusters.keep_current(every, stop).await });
    driver
        .tasks
        .spawn(driver.mounts.clone().tidy(driver.stop.clone()));
    let check = health.check("weka-mounts");
    let watched = driver.mounts.clone().watch(check, driver.stop.clone());
    driver.tasks.spawn(watched);
    if driver.config.serving.mode.has_node() {
        let check = health.check("weka-client");
        driver.tasks.spawn(labels::watch(driver.clone(), check));
    }
    if driver.config.serving.mode.has_controller() {
        driver.tasks.spawn(driver.clone().sweep_by_legacy_secret());
    }
    if let Some(events) = driver.events.clone() {
        let stop = driver.stop.clone();
        driver.tasks.spawn(async move { events.run(stop).await });
    }
}

/// Starts to read all volumes from their clusters, in one of the controllers or in each.
async fn start_figures(
    driver: &Arc<Driver>,
    kube: &KubeArgs,
    metrics: &stowage_service::Metrics,
) -> Result<(), StartError> {
    let Some(inventory) = driver.inventory.clone() else {
        return Ok(());
    };
    let (name, stop) = (
        driver.config.serving.driver_name.clone(),
        driver.stop.clone(),
    );
    let followed = inventory.clone();
    let following = stop.clone();
    driver.tasks.spawn(async move {
        followed.follow(name, following).await;
    });
    let elects = driver.config.figures.elects_a_leader;
    let elections = Elections::new(kube.config().await?, &lease(elects), metrics)?;
    let driver = driver.clone();
    driver.clone().tasks.spawn(async move {
        let lease = format!("{}-figures", driver.config.serving.driver_name);
        while !stop.is_cancelled() {
            let work = |lost: CancellationToken| {
                let (driver, inventory) = (driver.clone(), inventory.clone());
                async move {
                    tokio::select! {
                        () = driver.stop.cancelled() => {}
                        () = lost.cancelled() => {}
                        () = driver.keep_sweeping(&inventory) => {}
                    }
                    // Another controller shows them from now on.
                    driver.metrics.fleet.clear();
                }
            };
            if let Err(error) = elections.lead(&lease, &stop, work).await {
                let error = chain(&error);
                tracing::warn!(error, "Another controller may read the volumes now.");
            }
        }
    });
    Ok(())
}

/// As everywhere else.
fn lease(elects_a_leader: bool) -> LeaseArgs {
    LeaseArgs {
        leader_election: elects_a_leader,
        leader_election_namespace: std::env::var("POD_NAMESPACE").ok(),
        leader_election_lease_duration: Duration::from_secs(15),
        leader_election_renew_deadline: Duration::from_secs(10),
        leader_election_retry_period: Duration::from_secs(5),
        leader_election_labels: Vec::new(),
    }
}
