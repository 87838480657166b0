//! From the flags to a driver that serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_csi::locks::VolumeLocks;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::proto::csi::controller_server::ControllerServer;
use stowage_csi::proto::csi::group_controller_server::GroupControllerServer;
use stowage_csi::proto::csi::identity_server::IdentityServer;
use stowage_csi::proto::csi::node_server::NodeServer;
use stowage_csi::server::{ServeError, Shutdown, Socket, SocketError, serve};
use stowage_host::blocking;
use stowage_host::exec::{Exec, ExecError, HostExec, Invocation, Tool, tools};
use stowage_host::flush::Flushes;
use stowage_host::loopdev::Loops;
use stowage_host::mount::HostMounter;
use stowage_host::mountinfo::MountTable;
use stowage_host::stat::Stats;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use crate::args::{Args, Config, FlagError};
use crate::controller::ControllerService;
use crate::driver::{Driver, Host};
use crate::error::chain;
use crate::group::GroupService;
use crate::home::{self, Home, Refusal, decide, judge, look_again, look_around};
use crate::identity::IdentityService;
use crate::ledger::Ledger;
use crate::node::NodeService;
use crate::state::{Store, audit, repair};

/// Why the driver does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Flags that make no sense.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// The state directory cannot be used.
    #[error("the state directory `{}` cannot be used ({reason}): choose another with --statedir, or make it writable for root", path.display())]
    StateDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Volumes would not be safe in any directory, or in the one that was named.
    #[error("{0}")]
    Home(String),
    /// What an earlier process left could not be put in order.
    #[error("cannot clean up what an earlier driver left in the state directory: {0}")]
    Repair(String),
    /// The socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Serving ended by itself.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Serves the driver until `shutdown`.
///
/// Before the socket appears, what an earlier process left half-made is repaired and what it left frozen is thawed.
pub async fn run(args: Args, metrics: ServerMetrics, shutdown: Shutdown) -> Result<(), StartError> {
    let config = Config::try_from(args)?;
    let host = host();
    let driver = Arc::new(open(config, host).await?);
    let thawed = driver.thaw_all().await;
    thawed.map_err(|error| StartError::Repair(chain(&error)))?;

    let socket = Socket::bind(&driver.config.serving.endpoint)?;
    tracing::info!(
        driver = driver.config.serving.driver_name,
        node = %driver.config.node,
        endpoint = %driver.config.serving.endpoint,
        state = %driver.store.root().display(),
        mode = ?driver.config.serving.mode,
        "The driver is serving."
    );
    let exec = driver.host.exec.clone();
    tokio::spawn(async move { look_for_tools(&*exec).await });
    let store = driver.store.clone();
    // Beside the first calls: with many volumes it takes a while. Its outcome is in the log.
    tokio::task::spawn_blocking(move || {
        if let Err(error) = audit(&store) {
            let error = chain(&error);
            tracing::error!(error, "Cannot read the state directory.");
        }
    });
    let grace = shutdown.grace;
    serve(socket, routes(&driver), metrics, shutdown).await?;
    driver.finish(grace).await;
    Ok(())
}

fn host() -> Host {
    let exec: Arc<dyn Exec> = Arc::new(HostExec);
    let stats = Arc::new(Stats::default());
    Host {
        mounter: Arc::new(HostMounter::new(exec.clone(), stats.clone())),
        exec,
        stats,
        loops: Loops::default(),
        flushes: Flushes::default(),
    }
}

async fn open(config: Config, host: Host) -> Result<Driver, StartError> {
    let mounts = host.mounts().await;
    let mounts = mounts.map_err(|error| StartError::Home(chain(&error)))?;
    let limits = config.clone();
    let (home, store) = blocking(move || settle(&limits, &mounts)).await?;
    for warning in &home.warnings {
        tracing::warn!("{warning}");
    }
    let (counted, loops, limits) = (store.clone(), host.loops.clone(), config.clone());
    let ledger = blocking(move || {
        repair(&counted, &loops)?;
        Ledger::count(&limits, &counted)
    });
    let ledger = ledger
        .await
        .map_err(|error| StartError::Repair(chain(&error)))?;
    Ok(Driver {
        config,
        danger: home.condition(),
        store,
        host,
        locks: VolumeLocks::default(),
        ledger,
        tasks: TaskTracker::new(),
    })
}

/// Decides where the volumes live, and opens that directory.
fn settle(config: &Config, mounts: &MountTable) -> Result<(Home, Store), StartError> {
    let asked = config.state_directory.as_deref();
    let unusable = |path: &Path, error: &(dyn std::error::Error + 'static)| {
        let (path, reason) = (path.to_owned(), chain(error));
        StartError::StateDirectory { path, reason }
    };
    let nearest = asked.unwrap_or(Path::new(home::USUAL));
    let around = look_around(asked, mounts).map_err(|error| unusable(nearest, &error))?;
    let refused = |refusal: Refusal| StartError::Home(refusal.to_string());
    let home = decide(&around, config.allow_volatile).map_err(refused)?;
    let opened = Store::open(&home.path, &config.node);
    let store = opened.map_err(|error| unusable(&home.path, &error))?;
    // Where everybody may make directories, somebody may have made this one since.
    let made = look_again(&home.path, mounts).map_err(|error| unusable(&home.path, &error))?;
    judge(&made, config.allow_volatile).map_err(refused)?;
    Ok((home, store))
}

fn routes(driver: &Arc<Driver>) -> Routes {
    let mode = driver.config.serving.mode;
    let mut routes = Routes::new(IdentityServer::new(IdentityService(driver.clone())));
    if mode.has_controller() {
        routes = routes.add_service(ControllerServer::new(ControllerService(driver.clone())));
        routes = routes.add_service(GroupControllerServer::new(GroupService(driver.clone())));
    }
    if mode.has_node() {
        routes = routes.add_service(NodeServer::new(NodeService(driver.clone())));
    }
    routes
}

/// Says early which filesystems cannot be made. Not an error: nobody may want them.
async fn look_for_tools(exec: &dyn Exec) {
    const NEEDED: [Tool; 3] = [tools::MKFS_EXT4, tools::MKFS_XFS, tools::MKFS_BTRFS];
    for tool in NEEDED {
        let asked = exec.run(Invocation::new(tool).arg("-V")).await;
        if let Err(error @ ExecError::ToolMissing { .. }) = asked {
            tracing::warn!(%error, "Volumes with this filesystem cannot be staged.");
        }
    }
}
