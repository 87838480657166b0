//! Roles of the binary that run in the test's process, from their command line on.

use std::error::Error;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use clap::{Args, Command};
use stowage_csi::endpoint::Endpoint;
use stowage_service::{Health, Metrics, Process, Tasks};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::objects::{SOON, eventually};

/// How a role ends.
pub type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// The `run` of a role, such as `stowage_sidecar::controller::run`.
pub trait Role<A> {
    /// Runs until shutdown.
    fn run(self, args: A, process: Process) -> Pin<Box<dyn Future<Output = Ended> + Send>>;
}

impl<A, R, F, E> Role<A> for R
where
    R: FnOnce(A, Process) -> F,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Error + Send + Sync + 'static,
{
    fn run(self, args: A, process: Process) -> Pin<Box<dyn Future<Output = Ended> + Send>> {
        let running = self(args, process);
        Box::pin(async { Ok(running.await?) })
    }
}

/// A role that runs.
pub struct Running {
    /// What `/readyz` of the process would say.
    pub health: Health,
    /// What `/metrics` would say.
    pub metrics: Metrics,
    shutdown: CancellationToken,
    task: JoinHandle<Ended>,
}

/// Where a sidecar works.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The driver's socket.
    pub endpoint: &'a Endpoint,
    /// Who it is, and where the cluster is.
    pub kubeconfig: &'a Path,
    /// Of its leases.
    pub namespace: &'a str,
}

impl Place<'_> {
    /// The flags that a sidecar in this place has. It is impatient: what fails is tried again soon.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = flags(self.kubeconfig, self.namespace);
        flags.push(format!("--csi-address={}", self.endpoint));
        flags.push("--health-port=0".to_owned());
        flags
    }
}

/// The flags of a role that works with a cluster. It is impatient: what fails is tried again soon.
pub fn flags(kubeconfig: &Path, namespace: &str) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--leader-election-namespace={namespace}"),
        "--retry-interval-start=200ms".to_owned(),
    ]
}

impl Running {
    /// Starts a role with these flags, of which later ones win.
    pub fn start<A: Args>(role: impl Role<A>, flags: Vec<String>) -> Self {
        let command = A::augment_args(Command::new("role")).args_override_self(true);
        let words = std::iter::once("role".to_owned()).chain(flags);
        let matches = command.try_get_matches_from(words);
        let args = matches.and_then(|matches| A::from_arg_matches(&matches));
        let args = args.unwrap_or_else(|error| panic!("{error}"));
        let shutdown = CancellationToken::new();
        let process = Process {
            health: Health::default(),
            metrics: Metrics::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        let (health, metrics) = (process.health.clone(), process.metrics.clone());
        Self {
            health,
            metrics,
            shutdown,
            task: tokio::spawn(role.run(args, process)),
        }
    }

    /// Starts a sidecar in a place, with these flags besides those of the place.
    pub fn sidecar<A: Args>(
        role: impl Role<A>,
        place: Place<'_>,
        flags: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut all = place.flags();
        all.extend(flags.into_iter().map(Into::into));
        Self::start(role, all)
    }

    /// Asks it to stop, and waits.
    pub async fn stop(self) -> Ended {
        self.shutdown.cancel();
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Ended {
        let ended = tokio::time::timeout(SOON, self.task).await;
        ended.expect("the role does not end").unwrap()
    }

    /// Ends it like a `kill -9`: nothing is finished, nothing is handed over.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.shutdown.cancel();
    }

    /// Whether it still runs after a while in which it should have done nothing.
    pub async fn runs(&self) -> bool {
        tokio::time::sleep(Duration::from_millis(300)).await;
        !self.task.is_finished()
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
