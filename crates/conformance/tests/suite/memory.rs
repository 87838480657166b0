//! A driver in memory. Without a fault it keeps every promise; a target path is a directory or a file, not a mount.

mod controller;
mod fault;
mod node;
mod plugin;
mod state;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use stowage_csi::{
    check::{Check, Rules},
    endpoint::Endpoint,
    metrics::ServerMetrics,
    proto::csi::{
        controller_server::ControllerServer, controller_service_capability::rpc::Type as Can,
        group_controller_server::GroupControllerServer, identity_server::IdentityServer,
        node_server::NodeServer, node_service_capability::rpc::Type as NodeCan,
    },
    server::{Shutdown, Socket, serve},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, service::Routes};

use self::state::State;
pub use self::{fault::Fault, state::Access};

pub const NODE: &str = "node-1";
/// Enough for cases that run at the same time.
pub const LIMIT: i64 = 8;

const CONTROLLER: &[Can] = &[
    Can::CreateDeleteVolume,
    Can::PublishUnpublishVolume,
    Can::ListVolumes,
    Can::GetCapacity,
    Can::CreateDeleteSnapshot,
    Can::ListSnapshots,
    Can::CloneVolume,
    Can::PublishReadonly,
    Can::ExpandVolume,
    Can::SingleNodeMultiWriter,
    Can::ModifyVolume,
    Can::GetSnapshot,
];
const NODE_SIDE: &[NodeCan] = &[
    NodeCan::StageUnstageVolume,
    NodeCan::GetVolumeStats,
    NodeCan::ExpandVolume,
    NodeCan::SingleNodeMultiWriter,
];
const RULES: Rules = Rules::new(CONTROLLER, NODE_SIDE);

/// How much a driver can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Full,
    /// Expands volumes only while nobody uses them.
    Offline,
    /// No controller, and a node that only publishes.
    NodeOnly,
}

/// What a socket offers beside Identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    All,
    Controller,
    Node,
}

#[derive(Clone)]
pub struct Driver {
    shape: Shape,
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
    shutdown: CancellationToken,
}

impl Driver {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it looks")
    }

    /// Checks, acts and answers, unless the fault says otherwise.
    fn answer<Q: Check, A: Default>(
        &self,
        rpc: &'static str,
        request: Request<Q>,
        act: impl FnOnce(&mut State, Q) -> Result<A, Status>,
    ) -> Result<Response<A>, Status> {
        let request = request.into_inner();
        if self.has(Fault::Fails(rpc)) {
            return Err(Status::internal("broken on purpose"));
        }
        let checked = request.check(&RULES).map_err(Status::from);
        let answer = checked.and_then(|()| act(&mut self.state(), request));
        match answer {
            Ok(answer) => Ok(Response::new(answer)),
            Err(_) if self.has(Fault::Accepts(rpc)) => Ok(Response::new(A::default())),
            Err(_) if self.has(Fault::Miscodes(rpc)) => Err(Status::internal("no reason")),
            Err(status) => Err(status),
        }
    }

    fn serve(&self, endpoint: &Endpoint, services: Services) {
        let mut routes = Routes::new(IdentityServer::new(self.clone()));
        if services != Services::Node {
            routes = routes
                .add_service(ControllerServer::new(self.clone()))
                .add_service(GroupControllerServer::new(self.clone()));
        }
        if services != Services::Controller {
            routes = routes.add_service(NodeServer::new(self.clone()));
        }
        tokio::spawn(serve(
            Socket::bind(endpoint).expect("a socket"),
            routes,
            ServerMetrics::default(),
            Shutdown {
                token: self.shutdown.clone(),
                grace: Duration::ZERO,
            },
        ));
    }
}

/// A driver that is being served, and a folder for its sockets and paths.
pub struct Served {
    pub driver: Driver,
    pub folder: TempDir,
}

impl Served {
    pub fn start(fault: Option<Fault>) -> Self {
        Self::start_as(Shape::Full, fault)
    }

    pub fn start_as(shape: Shape, fault: Option<Fault>) -> Self {
        let served = Self::prepare(shape, fault);
        served.listen("csi.sock", Services::All);
        served
    }

    /// A driver that does not listen yet.
    pub fn prepare(shape: Shape, fault: Option<Fault>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["staging", "target"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder in it");
        }
        let driver = Driver {
            shape,
            fault,
            state: Arc::default(),
            shutdown: CancellationToken::new(),
        };
        Self { driver, folder }
    }

    /// Listens at one more socket.
    pub fn listen(&self, name: &str, services: Services) {
        self.driver.serve(&self.endpoint(name), services);
    }

    pub fn endpoint(&self, name: &str) -> Endpoint {
        let path = self.folder.path().join(name);
        Endpoint::try_from(path.as_path()).expect("a short path")
    }

    pub fn path(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        path.to_str().expect("a plain path").to_owned()
    }

    /// What the driver still has, and what lies where volumes were.
    pub fn left(&self) -> Vec<String> {
        let mut left = self.driver.state().left();
        for name in ["staging", "target"] {
            let entries = std::fs::read_dir(self.folder.path().join(name)).expect("our folder");
            left.extend(entries.map(|entry| {
                let path = entry.expect("an entry").path();
                path.display().to_string()
            }));
        }
        left
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.driver.shutdown.cancel();
    }
}

/// Removes a target path, whatever it is.
fn remove_target(path: &Path) {
    _ = std::fs::remove_dir(path);
    _ = std::fs::remove_file(path);
}
