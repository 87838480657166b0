//! Sidecars that run in this process.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use stowage_csi::endpoint::Endpoint;
use stowage_service::Process;
use stowage_service::{Health, Metrics, Tasks};
use stowage_sidecar::controller::{self, ControllerArgs};
use stowage_sidecar::node::{self, NodeArgs};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::rig::{SOON, eventually};

/// Where a sidecar works.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub endpoint: &'a Endpoint,
    pub kubeconfig: &'a Path,
    pub namespace: &'a str,
}

/// A sidecar.
pub struct Sidecar {
    pub health: Health,
    pub metrics: Metrics,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), String>>,
}

#[derive(Parser)]
enum Command {
    Controller(ControllerArgs),
    Node(NodeArgs),
}

impl Sidecar {
    /// `stowage sidecar controller`.
    pub fn controller(place: Place, flags: &[&str]) -> Self {
        Self::start("controller", place, flags)
    }

    /// `stowage sidecar node --node-deployment`.
    pub fn on_node(place: Place, node: &str, registry: &Path, flags: &[&str]) -> Self {
        let more = [
            format!("--plugin-registration-path={}", registry.display()),
            "--kubelet-registration-path=/var/lib/kubelet/plugins/x/csi.sock".to_owned(),
            "--node-deployment".to_owned(),
            format!("--node-name={node}"),
        ];
        let more = more.iter().map(String::as_str).chain(flags.iter().copied());
        Self::start("node", place, &more.collect::<Vec<_>>())
    }

    fn start(command: &str, place: Place, flags: &[&str]) -> Self {
        let words = [
            "sidecar".to_owned(),
            command.to_owned(),
            format!("--csi-address={}", place.endpoint),
            format!("--kubeconfig={}", place.kubeconfig.display()),
            format!("--leader-election-namespace={}", place.namespace),
            "--health-port=0".to_owned(),
        ];
        let mut words = words.to_vec();
        // A flag that is given twice is an error: what a test sets itself comes instead.
        let set = |name: &str| flags.iter().any(|flag| flag.starts_with(name));
        if !set("--retry-interval-start") {
            words.push("--retry-interval-start=200ms".to_owned());
        }
        words.extend(flags.iter().map(ToString::to_string));
        let (health, metrics, shutdown) =
            (Health::default(), Metrics::new(), CancellationToken::new());
        let process = Process {
            health: health.clone(),
            metrics: metrics.clone(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        let command = Command::parse_from(words);
        let running = tokio::spawn(async {
            match command {
                Command::Controller(args) => controller::run(args, process)
                    .await
                    .map_err(|error| error.to_string()),
                Command::Node(args) => Box::pin(node::run(args, process))
                    .await
                    .map_err(|error| error.to_string()),
            }
        });
        Self {
            health,
            metrics,
            shutdown,
            running,
        }
    }

    /// Asks it to stop, and waits.
    pub async fn stop(self) -> Result<(), String> {
        self.shutdown.cancel();
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Result<(), String> {
        tokio::time::timeout(SOON, self.running)
            .await
            .expect("the sidecar does not end")
            .unwrap()
    }

    /// Ends it like a `kill -9`: nothing is finished, nothing is handed over.
    pub async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
        self.shutdown.cancel();
    }

    /// Whether it still runs after a while in which it should have done nothing.
    pub async fn runs(&self) -> bool {
        tokio::time::sleep(Duration::from_millis(300)).await;
        !self.running.is_finished()
    }

    /// The lines of its metrics that begin so.
    pub fn metric(&self, begins: &str) -> Vec<String> {
        let text = self.metrics.encode().unwrap();
        let lines = text.lines().filter(|line| line.starts_with(begins));
        lines.map(str::to_owned).collect()
    }

    /// Waits until a line of its metrics says all of this.
    pub async fn shows(&self, words: &[&str]) {
        eventually(&format!("a metric says {words:?}"), async || {
            let text = self.metrics.encode().unwrap();
            let says = |line: &str| words.iter().all(|word| line.contains(word));
            text.lines().any(says).then_some(())
        })
        .await;
    }

    /// Waits until `/readyz` says this.
    pub async fn says(&self, text: &str) {
        eventually(&format!("/readyz says `{text}`"), async || {
            self.health.report().verbose().contains(text).then_some(())
        })
        .await;
    }
}
