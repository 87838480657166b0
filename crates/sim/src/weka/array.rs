//! The whole cluster, running in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::control::{Control, server};
use super::core::{Core, Knobs};
use super::{Options, rest};
use crate::control::{self, Controlled, Controls};
use crate::endpoints::{EndpointError, Endpoints};
use crate::faults::Trouble;
use crate::store::StoreError;

/// How often what is done with being removed is let go of.
const SWEEP: Duration = Duration::from_millis(50);

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

impl Controlled for Running {
    type Knobs = Knobs;
    type Trouble = Trouble;

    fn controls(&self) -> &Controls<Knobs, Trouble> {
        &self.core.controls
    }

    fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    fn router(&self) -> &Router {
        &self.router
    }

    async fn reload(&self) -> Result<(), StoreError> {
        self.core.reload().await
    }
}

impl Array {
    /// Starts a cluster. Must be called inside a tokio runtime, which then serves it.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let core = Arc::new(Core::open(&options).await?);
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
            running.endpoints.start(number, &running.router).await?;
        }
        let stop = CancellationToken::new();
        let control = server::router(Arc::clone(&running));
        let control = control::serve(options.control, control, &stop).await?;
        tokio::spawn(sweep(Arc::clone(&running.core), stop.clone()));
        Ok(Self {
            running,
            control: Control::new(control),
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
