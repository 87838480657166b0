//! From the flags to a driver that serves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use stowage_csi::flags::{FlagError, Serving};
use stowage_csi::identity::IdentityService;
use stowage_csi::locks::VolumeLocks;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::proto::csi::controller_server::ControllerServer;
use stowage_csi::proto::csi::identity_server::IdentityServer;
use stowage_csi::proto::csi::node_server::NodeServer;
use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
use stowage_csi::proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use stowage_csi::server::{ServeError, Shutdown, Socket, SocketError, serve};
use stowage_host::exec::{Exec, HostExec, HostProcess, OutsideExec};
use stowage_host::flush::Flushes;
use stowage_host::mount::{HostMounter, Mounter};
use stowage_host::stat::Stats;
use stowage_kubernetes::watch::Watcher;
use stowage_service::Process;
use stowage_service::client::{ClientError, connect};
use tonic::service::Routes;

use crate::args::Args;
use crate::driver::controller::{ControllerService, Services};
use crate::driver::node::disk::Places;
use crate::driver::node::iscsi::Initiator;
use crate::driver::node::lasting::Lasting;
use crate::driver::node::location::Location;
use crate::driver::node::multipath::Multipath;
use crate::driver::node::network::NotANetwork;
use crate::driver::node::register::{Address, Registration};
use crate::driver::node::targets::Targets;
use crate::driver::node::words::Words;
use crate::driver::node::{NodeService, NodeServices};
use crate::driver::objects::Objects;
use crate::keys::{self, KeyError};
use crate::vsc::cluster::Cluster;
use crate::vsc::write::Writer;
use crate::vsc::{self, VscError, VscOptions};

/// How long apart nodes are looked at.
const NODE_INTERVAL: Duration = Duration::from_secs(2);

/// Why the driver does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Flags that are not valid.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// Not an address, or none.
    #[error("{0}")]
    Address(String),
    /// No keys.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// No client for the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Serving ended by itself.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The control plane.
    #[error(transparent)]
    Vsc(#[from] VscError),
}

/// Serves the driver until shutdown; a controller also keeps custom resources and arrays in step while it leads.
pub async fn run(
    args: Args,
    process: Process,
    metrics: ServerMetrics,
    grace: Duration,
) -> Result<(), StartError> {
    let serving = Serving::try_from(args.driver.clone())?;
    let mode = serving.mode;
    let config = args.kube.config().await?;
    let client = connect(config.clone())?;
    let mut routes = Routes::new(IdentityServer::new(identity(&args, &serving)));
    let plane = if mode.has_controller() {
        let options = control_plane(&args, &config)?;
        let cluster = Arc::new(Cluster::default());
        let service = controller(&args, &client, &cluster, &process).await;
        let Some(service) = service else {
            return Ok(());
        };
        routes = routes.add_service(ControllerServer::new(service));
        let lease = args.lease.clone();
        let plane = process.clone();
        Some(async move { vsc::run(options, cluster, config, &lease, plane).await })
    } else {
        None
    };
    if mode.has_node() {
        let service = node(&args, &serving, &client)?;
        let (services, stop) = (Arc::clone(&service.0), process.shutdown.clone());
        let keep = async move { services.keep_registered(&stop).await };
        process.tasks.spawn("vscnode", keep);
        let (services, stop) = (Arc::clone(&service.0), process.shutdown.clone());
        let tidy = async move {
            let work = async {
                services.look_for_links().await;
                services.tidy().await;
            };
            stop.run_until_cancelled(work).await;
        };
        process.tasks.spawn("iscsi-sessions", tidy);
        routes = routes.add_service(NodeServer::new(service));
    }
    let socket = Socket::bind(&serving.endpoint)?;
    tracing::info!(driver = serving.driver_name, node = args.node_id, endpoint = %serving.endpoint, ?mode, "The driver is serving.");
    let shutdown = Shutdown {
        token: process.shutdown.clone(),
        grace,
    };
    let served = async { Ok(serve(socket, routes, metrics, shutdown).await?) };
    let led = async {
        match plane {
            Some(plane) => Ok(plane.await?),
            None => Ok(()),
        }
    };
    tokio::try_join!(served, led).map(|_: ((), ())| ())
}

fn identity(args: &Args, serving: &Serving) -> IdentityService {
    let mut capabilities = vec![Service::ControllerService.into(), Expansion::Online.into()];
    if has_topology(args) {
        capabilities.push(Service::VolumeAccessibilityConstraints.into());
    }
    IdentityService {
        name: serving.driver_name.clone(),
        capabilities,
    }
}

fn control_plane(args: &Args, config: &kube::Config) -> Result<VscOptions, StartError> {
    let namespace = args.lease.leader_election_namespace.clone();
    Ok(VscOptions {
        monitor_interval: args.monitor_interval,
        refresh_period: args.refresh_period,
        request_timeout: args.request_timeout,
        import_existing: args.import_existing,
        empty_recycle_bin: args.empty_recycle_bin,
        allocator: args.allocator,
        ciphers: keys::of_controller(&args.keys)?,
        namespace: namespace.unwrap_or_else(|| config.default_namespace.clone()),
        driver: args.driver.driver_name.clone(),
        node_loss: Some(args.node_loss_timeout).filter(|timeout| !timeout.is_zero()),
        node_interval: NODE_INTERVAL,
    })
}

/// The Controller service, once it knows what there is: an empty list would be a wrong answer.
async fn controller(
    args: &Args,
    client: &Client,
    cluster: &Arc<Cluster>,
    process: &Process,
) -> Option<ControllerService> {
    let watcher = Watcher {
        client: client.clone(),
        tasks: process.tasks.clone(),
        health: process.health.clone(),
    };
    let following = cluster.follow(&watcher, &process.shutdown);
    process.shutdown.run_until_cancelled(following).await?;
    let writer = Writer {
        client: client.clone(),
    };
    Some(ControllerService(Arc::new(Services {
        objects: Objects::new(Arc::clone(cluster), writer),
        locks: VolumeLocks::default(),
        longest: args.request_timeout,
        has_topology: has_topology(args),
    })))
}

fn has_topology(args: &Args) -> bool {
    !topology_keys(args).is_empty()
}

fn topology_keys(args: &Args) -> Vec<String> {
    let keys = args.topology_keys.iter().map(|key| key.trim().to_owned());
    keys.filter(|key| !key.is_empty()).collect()
}

fn node(args: &Args, serving: &Serving, client: &Client) -> Result<NodeService, StartError> {
    let exec: Arc<dyn Exec> = Arc::new(HostExec);
    let host = args.host_process.map(HostProcess);
    let outside: Arc<dyn Exec> = match host {
        Some(process) => Arc::new(OutsideExec {
            exec: Arc::clone(&exec),
            process,
        }),
        None => Arc::clone(&exec),
    };
    let file = |path: &Path| host.map_or_else(|| path.to_owned(), |host| host.file(path));
    let stats = Arc::new(Stats::default());
    let mounter = |exec: &Arc<dyn Exec>| -> Arc<dyn Mounter> {
        Arc::new(HostMounter::new(Arc::clone(exec), stats.clone()))
    };
    Ok(NodeService(Arc::new(NodeServices {
        driver: serving.driver_name.clone(),
        node: args.node_id.clone(),
        most_volumes: serving.max_volumes,
        default_filesystem: args.default_fs_type,
        cipher: keys::of_node(&args.keys)?,
        places: Places {
            links: args.by_path.clone(),
            sysfs: args.sysfs.clone(),
        },
        initiator: Initiator {
            exec: Arc::clone(&outside),
            records: file(&args.iscsi_records),
            targets: Targets::default(),
        },
        multipath: Multipath {
            exec: Arc::clone(&outside),
            mapper: args.mapper.clone(),
        },
        mounter: mounter(&exec),
        shares: mounter(&outside),
        exec,
        stats,
        flushes: Flushes::default(),
        location: Location {
            client: client.clone(),
            node: args.node_id.clone(),
            keys: topology_keys(args),
        },
        registration: Registration {
            client: client.clone(),
            node: args.node_id.clone(),
            address: address(args)?,
            initiator_name: file(&args.initiator_name),
            words: Words::default(),
        },
        locks: VolumeLocks::default(),
        lasting: Lasting::default(),
        longest: args.request_timeout,
    })))
}

/// How the node's address is found: the storage network wins, as with Zadara's driver.
fn address(args: &Args) -> Result<Address, StartError> {
    let network = args.storage_network.as_deref().filter(|it| !it.is_empty());
    match (network, args.node_ip) {
        (Some(network), _) => {
            let network = network.parse().map_err(|error: NotANetwork| {
                StartError::Address(format!("--storage-network: {error}"))
            })?;
            // Tools of the host use its network, whichever this process has.
            let process = args
                .host_process
                .map_or("self".to_owned(), |it| it.to_string());
            let told = Path::new("/proc").join(process).join("net");
            Ok(Address::Within { network, told })
        }
        (None, Some(address)) => Ok(Address::Given(address)),
        (None, None) => Err(StartError::Address(
            "a node needs --node-ip (CSI_NODE_IP) or --storage-network (CSI_STORAGE_NETWORK)"
                .to_owned(),
        )),
    }
}
