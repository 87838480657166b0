//! The kubelet's questions, and a node's sidecar to put them to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::registration::registration_client::RegistrationClient;
use stowage_csi::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use stowage_service::{Health, Metrics, Process, Tasks};
use stowage_sidecar::node::{self, NodeArgs, NodeError};
use stowage_stage::{SOON, until};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::node::driver::place;

/// The driver's socket in the words of the kubelet.
pub const HOST_SOCKET: &str = "/var/lib/kubelet/plugins/x/csi.sock";

#[derive(Parser)]
#[command(args_override_self = true)]
struct Command {
    #[command(flatten)]
    args: NodeArgs,
}

/// A node: the driver's socket, the kubelet's folder, and perhaps a sidecar.
pub struct Node {
    pub folder: TempDir,
    pub driver: Endpoint,
}

/// A node's sidecar that runs.
pub struct Sidecar {
    pub health: Health,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), NodeError>>,
}

impl Node {
    pub fn new() -> Self {
        let (folder, driver) = place();
        std::fs::create_dir(folder.path().join("registration")).unwrap();
        Self { folder, driver }
    }

    pub fn registration_socket(&self, driver: &str) -> PathBuf {
        let name = format!("registration/{driver}-reg.sock");
        self.folder.path().join(name)
    }

    pub fn args(&self, more: &[&str]) -> NodeArgs {
        let registration = self.folder.path().join("registration");
        let mut words = vec![
            "node".to_owned(),
            format!("--csi-address={}", self.driver),
            format!("--kubelet-registration-path={HOST_SOCKET}"),
            format!("--plugin-registration-path={}", registration.display()),
        ];
        // No port: these tests have no business with it, and they run side by side.
        words.push("--health-port=0".to_owned());
        words.extend(more.iter().map(ToString::to_string));
        Command::parse_from(words).args
    }

    pub fn start(&self, more: &[&str]) -> Sidecar {
        let (health, shutdown) = (Health::default(), CancellationToken::new());
        let process = Process {
            health: health.clone(),
            metrics: Metrics::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        let running = tokio::spawn(node::run(self.args(more), process));
        Sidecar {
            health,
            shutdown,
            running,
        }
    }

    /// The kubelet notices the socket of `driver`, as soon as it is there, and connects.
    pub async fn kubelet(&self, driver: &str) -> Kubelet {
        let socket = self.registration_socket(driver);
        until("a registration socket", || socket.exists()).await;
        Kubelet::connect(&Endpoint::try_from(socket.as_path()).unwrap())
    }
}

impl Sidecar {
    pub fn shows(&self, words: &str) -> bool {
        self.health.report().verbose().contains(words)
    }

    pub async fn stop(self) {
        self.shutdown.cancel();
        self.ended().await.unwrap();
    }

    /// Waits for its end.
    pub async fn ended(self) -> Result<(), NodeError> {
        timeout(SOON, self.running).await.unwrap().unwrap()
    }
}

/// The kubelet's end of a registration socket.
pub struct Kubelet(RegistrationClient<Connection>);

impl Kubelet {
    pub fn connect(endpoint: &Endpoint) -> Self {
        let options = ClientOptions {
            timeout: SOON,
            patience: Duration::from_secs(1),
            metrics: ClientMetrics::default(),
        };
        Self(RegistrationClient::new(Connection::new(endpoint, options)))
    }

    pub async fn asks(&mut self) -> PluginInfo {
        self.0.get_info(InfoRequest {}).await.unwrap().into_inner()
    }

    pub async fn registers(&mut self) {
        self.says(true, "").await;
    }

    pub async fn refuses(&mut self, reason: &str) {
        self.says(false, reason).await;
    }

    async fn says(&mut self, plugin_registered: bool, error: &str) {
        let status = RegistrationStatus {
            plugin_registered,
            error: error.to_owned(),
        };
        self.0.notify_registration_status(status).await.unwrap();
    }
}
