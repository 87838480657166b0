//! The HTTP port that the kubelet asks whether the driver is alive: `GET /healthz`.
//!
//! The kubelet restarts the driver's container when the answer is bad, so the answer must depend on the driver alone.
//! The port has a thread, a runtime and a connection of its own: a busy or stuck role, a lost lease, an API server
//! that is away, or the end of the process that takes its time, change nothing.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::ProbeRequest;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_service::admin::{self, BindError};
use stowage_service::duration;
use tokio::runtime::{self, Runtime};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::driver::{DriverName, refusal};

/// Enough for HTTP and one call; the default of two megabytes is address space only, but counts in limits.
const STACK: usize = 512 * 1024;

/// The flags of upstream's livenessprobe.
#[derive(clap::Args, Clone, Debug)]
pub struct LivenessArgs {
    /// Port on every interface that answers whether the driver is alive (`/healthz`); 0 turns it off
    #[arg(
        long,
        help_heading = "Liveness",
        value_name = "PORT",
        default_value_t = 9808
    )]
    pub health_port: u16,

    /// How long the driver may take to say that it is alive
    #[arg(long, help_heading = "Liveness", value_name = "DURATION", default_value = "3s", value_parser = some_time)]
    pub probe_timeout: Duration,
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

/// The endpoint. Dropped, it stops answering: keep it until the process ends.
#[derive(Debug)]
pub struct Liveness {
    address: SocketAddr,
    name: Arc<OnceLock<DriverName>>,
    stop: CancellationToken,
}

impl Liveness {
    /// Opens the port and answers from now on. None if the port is 0.
    pub fn start(
        args: &LivenessArgs,
        driver: &Endpoint,
        metrics: ClientMetrics,
    ) -> Result<Option<Self>, LivenessError> {
        match args.health_port {
            0 => Ok(None),
            port => Self::serve(bind(port)?, args.probe_timeout, driver, metrics).map(Some),
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
        let (name, stop) = (Arc::default(), CancellationToken::new());
        let thread = LivenessThread {
            listener,
            endpoint: driver.clone(),
            options: ClientOptions {
                timeout: probe_timeout,
                // The kubelet asks again by itself, and "no such file" tells more than a late answer.
                patience: Duration::ZERO,
                metrics,
            },
            name: Arc::clone(&name),
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
    endpoint: Endpoint,
    options: ClientOptions,
    name: Arc<OnceLock<DriverName>>,
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
        let prober = Arc::new(Prober {
            timeout: self.options.timeout,
            connection: Connection::new(&self.endpoint, self.options),
            name: self.name,
            state: Mutex::default(),
        });
        let router = Router::new()
            .route("/healthz", get(healthz))
            .with_state(prober);
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

/// Alive, or one sentence that says why not.
type Verdict = Result<(), Arc<str>>;

/// Asks the driver, for all who want to know at that moment.
struct Prober {
    timeout: Duration,
    connection: Connection,
    name: Arc<OnceLock<DriverName>>,
    state: Mutex<ProberState>,
}

#[derive(Default)]
struct ProberState {
    running: Option<WeakShared<BoxFuture<'static, Verdict>>>,
    /// What was logged last.
    alive: Option<bool>,
}

impl Prober {
    /// One call at a time: a driver that hangs is not buried in calls, and everybody is answered within the timeout
    /// of the call.
    async fn verdict(&self) -> Verdict {
        let verdict = self.running_probe().await;
        self.log_if_new(&verdict);
        verdict
    }

    fn running_probe(&self) -> Shared<BoxFuture<'static, Verdict>> {
        let mut state = self.state.lock();
        let running = state.running.as_ref().and_then(WeakShared::upgrade);
        // A finished probe whose answer is still on its way to somebody says nothing about now.
        if let Some(running) = running.filter(|probe| probe.peek().is_none()) {
            return running;
        }
        let mut connection = self.connection.clone();
        if let Some(name) = self.name.get() {
            connection = connection.with_driver_name(name.as_str());
        }
        let fresh = probe(connection, self.timeout).boxed().shared();
        state.running = fresh.downgrade();
        fresh
    }

    fn log_if_new(&self, verdict: &Verdict) {
        let alive = verdict.is_ok();
        let mut state = self.state.lock();
        if state.alive.replace(alive) == Some(alive) {
            return;
        }
        match verdict {
            Ok(()) => tracing::info!("The driver is alive."),
            Err(reason) => tracing::warn!(%reason, "The driver is not alive."),
        }
    }
}

async fn probe(connection: Connection, timeout: Duration) -> Verdict {
    let sentence = match IdentityClient::new(connection).probe(ProbeRequest {}).await {
        Ok(answer) if answer.get_ref().ready == Some(false) => {
            "the driver says that it is not ready".to_owned()
        }
        // An answer without the field means ready, says the specification.
        Ok(_) => return Ok(()),
        Err(status) if status.code() == Code::DeadlineExceeded => {
            format!("the driver did not answer Probe within {timeout:?}")
        }
        Err(status) => format!("the driver is not alive: {}", refusal("Probe", &status)),
    };
    // A probe's failure becomes one line of an event; the words may be the driver's.
    Err(sentence.replace(['\n', '\r'], " ").into())
}
