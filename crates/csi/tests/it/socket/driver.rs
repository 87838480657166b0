//! A driver for tests. The id in a call says what the call does.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::locks::VolumeLocks;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::controller_server::{Controller, ControllerServer};
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::identity_server::{Identity, IdentityServer};
use stowage_csi::proto::csi::snapshot_metadata_client::SnapshotMetadataClient;
use stowage_csi::proto::csi::snapshot_metadata_server::{SnapshotMetadata, SnapshotMetadataServer};
use stowage_csi::proto::csi::{
    DeleteVolumeRequest, DeleteVolumeResponse, GetMetadataAllocatedRequest,
    GetMetadataAllocatedResponse, ProbeRequest, ProbeResponse,
};
use stowage_csi::server::{ServeError, Shutdown, Socket, serve};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tracing_subscriber::fmt::MakeWriter;

/// No test should wait longer than this for anything.
pub const SOON: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Driver {
    pub locks: VolumeLocks,
    /// One permit per call that started to wait.
    pub entered: Arc<Semaphore>,
    /// One permit per waiting call whose future was dropped, finished or not.
    pub dropped: Arc<Semaphore>,
    /// Permits let waiting calls finish.
    pub gate: Arc<Semaphore>,
}

impl Default for Driver {
    fn default() -> Self {
        let empty = || Arc::new(Semaphore::new(0));
        Self {
            locks: VolumeLocks::default(),
            entered: empty(),
            dropped: empty(),
            gate: empty(),
        }
    }
}

/// Adds a permit when it goes.
struct OnDrop(Arc<Semaphore>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// Waits for one permit and uses it up.
pub async fn seen(event: &Semaphore) {
    let permit = tokio::time::timeout(SOON, event.acquire()).await;
    permit
        .expect("the event")
        .expect("an open semaphore")
        .forget();
}

#[tonic::async_trait]
impl Identity for Driver {
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

#[tonic::async_trait]
impl Controller for Driver {
    /// `panic` panics; `deadline` is not found and says how long it may take; `wait-...` takes the volume's lock
    /// and waits for the gate.
    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        tracing::debug!(request = ?request.get_ref(), "Deleting.");
        let id = request.get_ref().volume_id.clone();
        assert_ne!(id, "panic", "the test asked for it");
        if id == "deadline" {
            let timeout = request.metadata().get("grpc-timeout");
            return Err(Status::not_found(format!("{timeout:?}")));
        }
        let _lock = self.locks.lock(&id)?;
        if id.starts_with("wait") {
            let _dropped = OnDrop(self.dropped.clone());
            self.entered.add_permits(1);
            self.gate.acquire().await.expect("an open gate").forget();
        }
        Ok(Response::new(DeleteVolumeResponse {}))
    }
}

#[tonic::async_trait]
impl SnapshotMetadata for Driver {
    /// Two messages and then what the id says: `panic`, `wait` or the end.
    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Result<Response<BoxStream<'static, Result<GetMetadataAllocatedResponse, Status>>>, Status>
    {
        let id = request.into_inner().snapshot_id;
        let two = stream::iter((0..2).map(|_| Ok(GetMetadataAllocatedResponse::default())));
        let dropped = OnDrop(self.dropped.clone());
        let rest = stream::once(async move {
            let _dropped = dropped;
            match id.as_str() {
                "panic" => panic!("the test asked for it"),
                "wait" => std::future::pending().await,
                _ => Ok(GetMetadataAllocatedResponse::default()),
            }
        });
        Ok(Response::new(two.chain(rest).boxed()))
    }
}

/// What all tests of this program log, at the finest level.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

/// The log. One for all tests: what a log point does is remembered for the whole process, so a subscriber per
/// test would miss lines.
pub fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .init();
        log
    })
}

impl Log {
    pub fn text(&self) -> String {
        let bytes = self.0.lock().clone();
        String::from_utf8(bytes).expect("text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A driver that is being served, and a way to call it.
pub struct Served {
    pub driver: Driver,
    pub connection: Connection,
    pub shutdown: CancellationToken,
    pub server: JoinHandle<Result<(), ServeError>>,
    pub endpoint: Endpoint,
    registry: Registry,
    /// Kept until the end, if it is ours.
    folder: Option<TempDir>,
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

pub fn endpoint_in(folder: &TempDir) -> Endpoint {
    let path = folder.path().join("csi.sock");
    Endpoint::try_from(path.as_path()).expect("a short path")
}

pub fn routes(driver: &Driver) -> Routes {
    Routes::new(IdentityServer::new(driver.clone()))
        .add_service(ControllerServer::new(driver.clone()))
        .add_service(SnapshotMetadataServer::new(driver.clone()))
}

pub fn connect(endpoint: &Endpoint, registry: &mut Registry) -> Connection {
    let options = ClientOptions {
        timeout: SOON,
        patience: Duration::from_secs(5),
        metrics: ClientMetrics::register(registry),
    };
    Connection::new(endpoint, options).with_driver_name("test.csi")
}

impl Served {
    pub fn start() -> Self {
        let folder = folder();
        let mut served = Self::start_at(endpoint_in(&folder), SOON);
        served.folder = Some(folder);
        served
    }

    pub fn start_at(endpoint: Endpoint, grace: Duration) -> Self {
        log();
        let mut registry = Registry::default();
        let driver = Driver::default();
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(serve(
            Socket::bind(&endpoint).expect("a socket"),
            routes(&driver),
            ServerMetrics::register(&mut registry),
            Shutdown {
                token: shutdown.clone(),
                grace,
            },
        ));
        Self {
            connection: connect(&endpoint, &mut registry),
            driver,
            shutdown,
            server,
            endpoint,
            registry,
            folder: None,
        }
    }

    pub fn identity(&self) -> IdentityClient<Connection> {
        IdentityClient::new(self.connection.clone())
    }

    pub fn controller(&self) -> ControllerClient<Connection> {
        ControllerClient::new(self.connection.clone())
    }

    pub fn metadata(&self) -> SnapshotMetadataClient<Connection> {
        SnapshotMetadataClient::new(self.connection.clone())
    }

    /// Deletes a volume in a task of its own.
    pub fn delete(&self, id: &str) -> JoinHandle<Result<Response<DeleteVolumeResponse>, Status>> {
        let mut controller = self.controller();
        let request = delete_request(id);
        tokio::spawn(async move { controller.delete_volume(request).await })
    }

    /// The value of a metric, named with its labels as a scrape shows it.
    pub fn metric(&self, series: &str) -> Option<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("metrics as text");
        let line = text.lines().find(|line| line.starts_with(series))?;
        Some(line[series.len()..].trim().to_owned())
    }

    /// Stops the server and waits until it has.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(SOON, self.server).await;
        ended.expect("an end").expect("no panic").expect("no error");
    }
}

pub fn delete_request(id: &str) -> DeleteVolumeRequest {
    DeleteVolumeRequest {
        volume_id: id.to_owned(),
        ..Default::default()
    }
}
