//! The life of a process: start, run, stop.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::{Admin, AdminArgs, BindError, Endpoint};
use crate::health::Check;
use crate::log::{AlreadySetUp, LogArgs};
use crate::{Health, Metrics, Tasks, arenas, client, duration, memory, signals};

/// The flags of every long-running process.
#[derive(clap::Args, Clone, Debug)]
pub struct ServiceArgs {
    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,

    /// The HTTP port.
    #[command(flatten)]
    pub admin: AdminArgs,

    /// How long work may take to finish once the process is asked to stop
    // Ten seconds less than the kubelet allows by default, so that we can still say what hangs.
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    pub grace_period: Duration,
}

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Logging was set up before.
    #[error(transparent)]
    Log(#[from] AlreadySetUp),
    /// The HTTP port cannot be opened.
    #[error(transparent)]
    Http(#[from] BindError),
    /// Signal handlers cannot be installed.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}

/// Why a process ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The work itself ended with an error.
    #[error(transparent)]
    Work(Box<dyn Error + Send + Sync>),
    /// A background task panicked.
    #[error("the task `{0}` panicked")]
    Panicked(String),
    /// Work or tasks went on after the grace period.
    #[error("not finished within {} s after the request to stop: {}", grace.as_secs_f64(), tasks.join(", "))]
    Unfinished {
        /// Their names; the work that was handed to [`Service::run`] is called `work`.
        tasks: Vec<String>,
        /// How long they had.
        grace: Duration,
    },
}

/// A started process: logging, listening for signals, answering on its HTTP port.
#[derive(Debug)]
pub struct Service {
    health: Health,
    metrics: Metrics,
    tasks: Tasks,
    shutdown: CancellationToken,
    grace: Duration,
    running: Check,
    admin: Admin,
    metrics_path: String,
    // They stop answering when the service is dropped: probes are answered while work winds down.
    ports: Vec<AbortOnDropHandle<()>>,
    _memory: AbortOnDropHandle<()>,
}

/// What the work in a service is given of it. Cheap to clone.
#[derive(Clone)]
pub struct Process {
    /// Readiness.
    pub health: Health,
    /// Metrics.
    pub metrics: Metrics,
    /// Background tasks.
    pub tasks: Tasks,
    /// The request to stop.
    pub shutdown: CancellationToken,
}

impl Service {
    /// Starts what every process has. Must be called inside a tokio runtime, once.
    pub fn start(args: &ServiceArgs) -> Result<Self, StartError> {
        arenas::limit();
        client::install_crypto_provider();
        let level = args.log.init()?;
        let shutdown = CancellationToken::new();
        signals::stop_on_signal(&shutdown).map_err(StartError::Signals)?;

        let health = Health::default();
        let running = health.check("process");
        let metrics = Metrics::new();
        let admin = Admin {
            health: health.clone(),
            metrics: metrics.clone(),
            level,
        };
        let tasks = Tasks::new(shutdown.clone());
        let mut service = Self {
            health,
            metrics,
            tasks,
            shutdown,
            grace: args.grace_period,
            running,
            admin,
            metrics_path: args.admin.metrics_path.clone(),
            ports: Vec::new(),
            _memory: AbortOnDropHandle::new(tokio::spawn(memory::keep_small())),
        };
        service.listen(&args.admin.http_endpoint)?;
        service.listen(&args.admin.metrics_address)?;
        service.running.ready();
        Ok(service)
    }

    /// Opens a further HTTP port that answers the same, for manifests that probe one port and scrape another.
    pub fn listen(&mut self, endpoint: &Endpoint) -> Result<(), BindError> {
        let Some(listener) = endpoint.bind()? else {
            return Ok(());
        };
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "The HTTP port is open.");
        }
        let (admin, path) = (self.admin.clone(), self.metrics_path.clone());
        let port = tokio::spawn(async move {
            if let Err(error) = admin.serve(listener, &path).await {
                tracing::error!(%error, "The HTTP port is closed.");
            }
        });
        self.ports.push(AbortOnDropHandle::new(port));
        Ok(())
    }

    /// Readiness checks.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Background tasks, which [`Service::run`] waits for at the end.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Cancelled when the process is to stop. Cancel it to stop the process from within.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// All of these, for the work that is handed to [`Service::run`].
    pub fn process(&self) -> Process {
        Process {
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            tasks: self.tasks.clone(),
            shutdown: self.shutdown(),
        }
    }

    /// Runs until `work` ends or the process is asked to stop; then lets work and tasks finish, for the grace period
    /// at most.
    ///
    /// # Errors
    /// The error of `work`, or which task panicked, or which did not finish. Being asked to stop is not an error.
    pub async fn run<E>(self, work: impl Future<Output = Result<(), E>>) -> Result<(), RunError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut work = pin!(work);
        let mut result = tokio::select! {
            result = &mut work => Some(result),
            () = self.shutdown.cancelled() => None,
        };
        self.running.not_ready("stopping");
        self.shutdown.cancel();

        let deadline = Instant::now() + self.grace;
        if result.is_none() {
            result = timeout_at(deadline, work).await.ok();
        }
        let mut unfinished = self.tasks.finish(deadline).await;
        if result.is_none() {
            unfinished.insert(0, "work".to_owned());
        }
        self.verdict(result, unfinished)
    }

    fn verdict<E>(
        &self,
        result: Option<Result<(), E>>,
        unfinished: Vec<String>,
    ) -> Result<(), RunError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let grace = self.grace;
        let cause = match (self.tasks.panicked(), result) {
            (Some(task), _) => RunError::Panicked(task),
            (None, Some(Err(error))) => RunError::Work(error.into()),
            (None, _) if unfinished.is_empty() => return Ok(()),
            (None, _) => {
                return Err(RunError::Unfinished {
                    tasks: unfinished,
                    grace,
                });
            }
        };
        if !unfinished.is_empty() {
            // The caller gets the cause; this would be lost.
            tracing::warn!(
                ?unfinished,
                ?grace,
                "Not everything finished within the grace period."
            );
        }
        Err(cause)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::{KubeArgs, LeaseArgs};

    /// What a role does
    #[derive(Parser)]
    struct Role {
        #[command(flatten)]
        _service: ServiceArgs,
        #[command(flatten)]
        _kube: KubeArgs,
        #[command(flatten)]
        _lease: LeaseArgs,
        /// A flag of its own
        #[arg(long)]
        _own: bool,
    }

    #[test]
    fn our_flags_leave_the_help_of_a_role_as_it_is() {
        let mut command = Role::command();
        command.build();
        assert_eq!(
            command.get_about().map(ToString::to_string).as_deref(),
            Some("What a role does")
        );
        assert_eq!(command.get_long_about().map(ToString::to_string), None);
        let own = command
            .get_arguments()
            .find(|argument| argument.get_id() == "_own")
            .unwrap();
        assert_eq!(own.get_help_heading(), None);
    }
}
