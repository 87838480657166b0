//! A CSI driver whose mounts die with its process, as those of FUSE daemons and NBD clients do: what updates of such a
//! driver are tried with.
//!
//! A volume is a directory below `--data`, which all nodes must share. Whoever uses it reads and writes through this
//! process: when that ends, every operation on the mount fails with ENOTCONN.
//!
//! - [`controller`], [`node`]: the services.
//! - [`volumes`]: directories, and the mounts that this process serves.

mod controller;
mod node;
mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use stowage_csi::check::Rules;
use stowage_csi::flags::{DriverArgs, FlagError, Serving, absolute};
use stowage_csi::identity::IdentityService;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::proto::csi::controller_server::ControllerServer;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as ControllerRpc;
use stowage_csi::proto::csi::identity_server::IdentityServer;
use stowage_csi::proto::csi::node_server::NodeServer;
use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
use stowage_csi::server::{ServeError, Shutdown, Socket, SocketError, serve};
use tonic::service::Routes;

use self::volumes::Volumes;

/// Names of volumes are names of directories: claims' names fit.
const RULES: Rules = Rules {
    controller: &[ControllerRpc::CreateDeleteVolume],
    node: &[],
    id_bytes: 128,
};

/// The flags.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("driver_name", |arg| arg.default_value("fuse.sim.stowage.dev").required(false)))]
pub struct Args {
    #[command(flatten)]
    driver: DriverArgs,

    /// Name of this node
    #[arg(long = "nodeid", value_name = "NAME", env = "KUBE_NODE_NAME")]
    node_id: String,

    /// Where volumes are; all nodes must share it
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Why the driver does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Flags that make no sense.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// The socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Serving ended by itself.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// What all services share.
struct Driver {
    node_id: String,
    volumes: Volumes,
}

/// Serves the driver until `shutdown`. Its mounts die then.
pub async fn run(args: Args, metrics: ServerMetrics, shutdown: Shutdown) -> Result<(), StartError> {
    let serving = Serving::try_from(args.driver)?;
    let driver = Arc::new(Driver {
        node_id: args.node_id,
        volumes: Volumes::new(absolute("data", args.data)?),
    });
    let socket = Socket::bind(&serving.endpoint)?;
    let mut routes = Routes::new(IdentityServer::new(IdentityService {
        name: serving.driver_name,
        capabilities: vec![Service::ControllerService.into()],
    }));
    if serving.mode.has_controller() {
        routes = routes.add_service(ControllerServer::from_arc(Arc::clone(&driver)));
    }
    if serving.mode.has_node() {
        routes = routes.add_service(NodeServer::from_arc(driver));
    }
    Ok(serve(socket, routes, metrics, shutdown).await?)
}
