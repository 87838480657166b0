//! A driver that does as it is told, and dies like a process.

use std::future::pending;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::proto::csi::controller_server::{Controller, ControllerServer};
use stowage_csi::proto::csi::controller_service_capability::{self, Rpc, rpc};
use stowage_csi::proto::csi::identity_server::{Identity, IdentityServer};
use stowage_csi::proto::csi::plugin_capability::{self, Service, service};
use stowage_csi::proto::csi::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerServiceCapability, GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse,
    GetPluginInfoRequest, GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};
use stowage_csi::server::{Shutdown, Socket, serve};
use stowage_stage::SOON;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tracing_subscriber::fmt::MakeWriter;

/// How the driver answers Probe.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Ready,
    /// The field is missing, which means ready.
    Nothing,
    NotReady,
    /// Ready, after a while.
    Slow(Duration),
    Never,
    /// As it is told to later.
    Held,
    Error,
}

/// A driver for tests.
#[derive(Clone, Debug)]
pub struct TestDriver {
    pub name: String,
    /// What ControllerGetCapabilities answers; none means that there is no such service at all.
    pub controller: Option<Vec<rpc::Type>>,
    pub probe: Arc<Mutex<Answer>>,
    pub probes: Arc<AtomicUsize>,
}

impl TestDriver {
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            controller: None,
            probe: Arc::new(Mutex::new(Answer::Ready)),
            probes: Arc::default(),
        }
    }

    pub fn with_controller(mut self, capabilities: &[rpc::Type]) -> Self {
        self.controller = Some(capabilities.to_vec());
        self
    }

    pub fn answering(self, answer: Answer) -> Self {
        self.answer(answer);
        self
    }

    /// Changes how Probe is answered.
    pub fn answer(&self, answer: Answer) {
        *self.probe.lock() = answer;
    }

    pub fn probes(&self) -> usize {
        self.probes.load(Ordering::SeqCst)
    }

    pub fn start(&self, endpoint: &Endpoint) -> RunningDriver {
        RunningDriver::start(self.clone(), endpoint)
    }
}

#[tonic::async_trait]
impl Identity for TestDriver {
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        let mut answer = *self.probe.lock();
        while matches!(answer, Answer::Held) {
            sleep(Duration::from_millis(5)).await;
            answer = *self.probe.lock();
        }
        let ready = match answer {
            Answer::Ready => Some(true),
            Answer::Nothing => None,
            Answer::NotReady => Some(false),
            Answer::Slow(time) => {
                sleep(time).await;
                Some(true)
            }
            Answer::Never | Answer::Held => pending().await,
            Answer::Error => {
                return Err(Status::failed_precondition(
                    "the array is on fire,\nand so am I",
                ));
            }
        };
        Ok(Response::new(ProbeResponse { ready }))
    }

    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: "1.2.3".to_owned(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        if self.controller.is_none() {
            return Err(Status::unimplemented("no capabilities"));
        }
        let service = Service {
            r#type: service::Type::ControllerService as i32,
        };
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: vec![PluginCapability {
                r#type: Some(plugin_capability::Type::Service(service)),
            }],
        }))
    }
}

#[tonic::async_trait]
impl Controller for TestDriver {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let capability = |number: &rpc::Type| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(Rpc {
                r#type: *number as i32,
            })),
        };
        let numbers = self.controller.iter().flatten();
        Ok(Response::new(ControllerGetCapabilitiesResponse {
            capabilities: numbers.map(capability).collect(),
        }))
    }
}

/// A process, as far as its peers can see. Dropped, it dies at once and takes its connections along.
pub struct RunningDriver(Option<Runtime>);

impl RunningDriver {
    fn start(driver: TestDriver, endpoint: &Endpoint) -> Self {
        let process = Runtime::new().unwrap();
        let routes = Routes::new(IdentityServer::new(driver.clone()))
            .add_service(ControllerServer::new(driver));
        let shutdown = Shutdown {
            token: CancellationToken::new(),
            grace: SOON,
        };
        let socket = Socket::bind(endpoint).unwrap();
        process.spawn(serve(socket, routes, ServerMetrics::default(), shutdown));
        Self(Some(process))
    }

    /// A process that accepts connections and answers in some other language.
    pub fn garbage(endpoint: &Endpoint) -> Self {
        let process = Runtime::new().unwrap();
        _ = std::fs::remove_file(endpoint.path());
        let listener = {
            let _inside = process.enter();
            UnixListener::bind(endpoint.path()).unwrap()
        };
        process.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut heard = [0; 64];
                    _ = stream.read(&mut heard).await;
                    _ = stream
                        .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\nwhat?\n")
                        .await;
                });
            }
        });
        Self(Some(process))
    }

    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for RunningDriver {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            process.shutdown_background();
        }
    }
}

/// A folder with a short path, and the driver's socket in it.
pub fn place() -> (TempDir, Endpoint) {
    log();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("csi.sock");
    let endpoint = Endpoint::try_from(path.as_path()).unwrap();
    (folder, endpoint)
}

/// What all tests of this program log. One for all: what a log point does is remembered for the whole process.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

pub fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(log.clone())
            .try_init()
            .ok();
        log
    })
}

impl Log {
    /// Lines about something in `folder` that contain `words`.
    pub fn lines(&self, folder: &Path, words: &str) -> usize {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let folder = folder.display().to_string();
        let about = |line: &&str| line.contains(&folder) && line.contains(words);
        text.lines().filter(about).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
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
