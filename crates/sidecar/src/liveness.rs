//! Whether the driver is alive, for the kubelet: `GET /healthz` on `--health-port` and on `--http-endpoint`, as upstream's livenessprobe answers it.
//!
//! The kubelet restarts the driver's container when the answer is bad, so the answer must depend on the driver alone.
//! `--health-port` has a thread, a runtime and a connection of its own: a busy or stuck role, a lost lease, an API server
//! that is away, or the end of the process that takes its time, change nothing. `--http-endpoint` is the process's own port, and answers
//! for the driver as long as the process answers at all.

mod prober;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_service::admin::{self, BindError};
use stowage_service::{Health, duration};
use tokio::runtime::{self, Runtime};
use tokio_util::sync::CancellationToken;

use self::prober::{Name, Prober, Subject};
use crate::driver::DriverName;

/// Enough for HTTP and one call; the default of two megabytes is address space only, but counts in limits.
const STACK: usize = 512 * 1024;

/// The flags of upstream's livenessprobe.
#[derive(clap::Args, Clone, Debug)]
pub struct LivenessArgs {
    /// Port on every interface that answers whether the driver is alive (`/healthz`) [default: none]
    #[arg(long, help_heading = "Liveness", value_name = "PORT")]
    pub health_port: Option<u16>,

    /// How long the driver may take to say that it is alive
    #[arg(long, help_heading = "Liveness", value_name = "DURATION", default_value = "3s", value_parser = some_time)]
    pub probe_timeout: Duration,
}

impl LivenessArgs {
    /// The port, if one is asked for.
    pub fn port(&self) -> Option<u16> {
        self.health_port.filter(|port| *port != 0)
    }
}

/// A duration that is not zero: no call ends in no time.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("it must be longer than 0s, such as `3s`".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// Why there is no liveness endpoint.
#[derive(Debug, thiserror::Error)]
pub enum LivenessError {
    /// Another process listens there. Pods on the host's network share their ports.
    #[error(
        "port {0} is already in use by another process: choose another port for liveness with --health-port, and the \
         same in the driver's livenessProbe"
    )]
    PortTaken(u16),
    /// The port cannot be opened for another reason.
    #[error("cannot listen on port {port}, given with --health-port")]
    Port {
        /// The port.
        port: u16,
        /// What the system says.
        #[source]
        source: BindError,
    },
    /// No thread or no runtime.
    #[error("cannot start the thread of the liveness endpoint")]
    Thread(#[source] io::Error),
}

/// Everything that answers for a driver. Keep it until the process ends.
pub(crate) struct Probes {
    port: Option<Liveness>,
    name: Name,
}

impl Probes {
    /// Opens the port that is asked for, and answers for the driver on the process's own. Must be called inside a tokio runtime.
    pub(crate) fn start(
        args: &LivenessArgs,
        driver: &Endpoint,
        metrics: &ClientMetrics,
        health: &Health,
    ) -> Result<Self, LivenessError> {
        let name = Name::default();
        let prober = Arc::new(Prober::new(Subject {
            driver: driver.clone(),
            timeout: args.probe_timeout,
            metrics: metrics.clone(),
            name: Arc::clone(&name),
        }));
        health.speak_for(move || {
            let prober = Arc::clone(&prober);
            async move { prober.verdict().await }
        });
        let port = Liveness::start(args, driver, metrics.clone())?;
        Ok(Self { port, name })
    }

    /// Counts probes under this name from now on; the first name stays.
    pub(crate) fn name_driver(&self, name: &DriverName) {
        _ = self.name.set(name.clone());
        if let Some(port) = &self.port {
            port.name_driver(name);
        }
    }
}

/// The endpoint. Dropped, it stops answering: keep it until the process ends.
#[derive(Debug)]
pub struct Liveness {
    address: SocketAddr,
    name: Name,
    stop: CancellationToken,
}

impl Liveness {
    /// Opens the port and answers from now on. None if no port is asked for.
    pub fn start(
        args: &LivenessArgs,
        driver: &Endpoint,
        metrics: ClientMetrics,
    ) -> Result<Option<Self>, LivenessError> {
        match args.port() {
            None => Ok(None),
            Some(port) => Self::serve(bind(port)?, args.probe_timeout, driver, metrics).map(Some),
        }
    }

    /// Answers on a port that is open already.
    pub fn serve(
        listener: TcpListener,
        probe_timeout: Duration,
        driver: &Endpoint,
        metrics: ClientMetrics,
    ) -> Result<Self, LivenessError> {
        let address = listener.local_addr().map_err(LivenessError::Thread)?;
        let (name, stop) = (Name::default(), CancellationToken::new());
        let thread = LivenessThread {
            listener,
            subject: Subject {
                driver: driver.clone(),
                timeout: probe_timeout,
                metrics,
                name: Arc::clone(&name),
            },
            stop: stop.clone(),
        };
        thread.start().map_err(LivenessError::Thread)?;
        tracing::info!(%address, "The liveness endpoint is open.");
        Ok(Self {
            address,
            name,
            stop,
        })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts probes under this name from now on; the first name stays.
    pub fn name_driver(&self, name: &DriverName) {
        _ = self.name.set(name.clone());
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn bind(port: u16) -> Result<TcpListener, LivenessError> {
    let everywhere = admin::Endpoint::On {
        host: String::new(),
        port,
    };
    match everywhere.bind() {
        Ok(listener) => Ok(listener.expect("this endpoint is on")),
        Err(BindError::Taken(_)) => Err(LivenessError::PortTaken(port)),
        Err(source) => Err(LivenessError::Port { port, source }),
    }
}

/// What moves to the thread.
struct LivenessThread {
    listener: TcpListener,
    subject: Subject,
    stop: CancellationToken,
}

impl LivenessThread {
    /// Returns when the thread answers, or why it does not.
    fn start(self) -> io::Result<()> {
        let (report, started) = std::sync::mpsc::sync_channel(1);
        thread::Builder::new()
            .name("liveness".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                // Built here, because a runtime must not be dropped inside of another.
                let built = self.listener.set_nonblocking(true).and_then(|()| runtime());
                let (runtime, built) = match built {
                    Ok(runtime) => (Some(runtime), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // Nobody waits for it only if the caller panicked.
                _ = report.send(built);
                if let Some(runtime) = runtime {
                    runtime.block_on(self.run());
                }
            })?;
        started
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }

    async fn run(self) {
        let router = Router::new()
            .route("/healthz", get(healthz))
            .with_state(Arc::new(Prober::new(self.subject)));
        let serving = async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            axum::serve(listener, router).await
        };
        if let Some(Err(error)) = self.stop.run_until_cancelled(serving).await {
            tracing::error!(%error, "The liveness endpoint is closed.");
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

async fn healthz(State(prober): State<Arc<Prober>>) -> (StatusCode, String) {
    match prober.verdict().await {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(sentence) => (StatusCode::INTERNAL_SERVER_ERROR, sentence.to_string()),
    }
}
