//! The whole cluster, running in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::control::{Control, server};
use super::core::Core;
use super::endpoints::{self, EndpointError, Endpoints};
use super::state::store::StoreError;
use super::{Options, rest};

/// How often what is done with being removed is let go of.
const SWEEP: Duration = Duration::from_millis(50);

/// How long another cluster may take to let go of the data directory.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a cluster does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its ports.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// A cluster that runs for as long as this is held.
#[derive(Debug)]
pub struct Array {
    running: Arc<Running>,
    control: Control,
    _stop: DropGuard,
}

/// What the control API works on.
#[derive(Debug)]
pub struct Running {
    /// State and files.
    pub core: Arc<Core>,
    /// Ports.
    pub endpoints: Arc<Endpoints>,
    router: Router,
    data: PathBuf,
}

impl Running {
    /// Lets an endpoint answer.
    pub async fn start_endpoint(&self, number: usize) -> Result<(), EndpointError> {
        self.endpoints.start(number, &self.router).await
    }

    /// Stops all endpoints, forgets everything but the data directory, and starts those that ran again.
    pub async fn restart(&self, down: Duration) -> Result<(), StartError> {
        let before = self.endpoints.status();
        self.endpoints.stop_all();
        self.core.reload().await?;
        tokio::time::sleep(down).await;
        for (number, endpoint) in before.iter().enumerate() {
            if endpoint.running {
                self.start_endpoint(number).await?;
            }
        }
        Ok(())
    }
}

impl Array {
    /// Starts a cluster. Must be called inside a tokio runtime, which then serves it.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let core = Arc::new(open(&options).await?);
        let release = core.read(|state, _| state.cluster().release.clone());
        let tls = options
            .is_secure(&release)
            .then_some(options.data.as_path());
        let endpoints = Arc::new(Endpoints::bind(&options.listen, tls).await?);
        let router = rest::router(Arc::clone(&core), Arc::clone(&endpoints));
        let running = Arc::new(Running {
            core,
            endpoints,
            router,
            data: options.data.clone(),
        });
        for number in 0..options.listen.len() {
            running.start_endpoint(number).await?;
        }
        let stop = CancellationToken::new();
        let control = serve_control(&running, &options, &stop).await?;
        tokio::spawn(sweep(Arc::clone(&running.core), stop.clone()));
        Ok(Self {
            running,
            control,
            _stop: stop.drop_guard(),
        })
    }

    /// The client of its control API.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// `host:port` of each endpoint, as a secret's `endpoints` lists them.
    pub fn endpoints(&self) -> Vec<String> {
        self.running
            .endpoints
            .status()
            .iter()
            .map(|endpoint| endpoint.address.to_string())
            .collect()
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        self.running.endpoints.scheme()
    }

    /// The base of the REST API at the first endpoint, without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}://{}/api/v2", self.scheme(), self.endpoints()[0])
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.running.data
    }

    /// The certificate that HTTPS clients must trust, as PEM.
    pub fn ca_certificate(&self) -> std::io::Result<String> {
        std::fs::read_to_string(self.running.data.join("ca.pem"))
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // The endpoints hold what they serve, and what they serve knows the endpoints: they do not end by themselves.
        self.running.endpoints.stop_all();
    }
}

/// Opens the data directory, which a cluster that was just dropped lets go of a moment later.
async fn open(options: &Options) -> Result<Core, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Core::open(options) {
            Err(StoreError::InUse(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            result => return result,
        }
    }
}

async fn serve_control(
    running: &Arc<Running>,
    options: &Options,
    stop: &CancellationToken,
) -> Result<Control, StartError> {
    let unavailable = |source| EndpointError::Unavailable {
        address: options.control,
        source,
    };
    let listener = TcpListener::bind(options.control)
        .await
        .map_err(unavailable)?;
    let address = listener.local_addr().map_err(unavailable)?;
    let router = server::router(Arc::clone(running));
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    let stop = stop.clone();
                    let answered = endpoints::answer(stream, router.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = answered => {}
                        }
                    });
                },
            }
        }
    });
    Ok(Control::new(format!("http://{address}")))
}

async fn sweep(core: Arc<Core>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => if let Err(error) = core.sweep().await {
                tracing::warn!(%error, "Cannot remove deleted files for now.");
            },
        }
    }
}
