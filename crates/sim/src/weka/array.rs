//! The whole cluster, running in this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use tokio_util::sync::DropGuard;

use super::control::{Control, server};
use super::core::{Core, Failure, Knobs};
use super::{Options, exports, rest};
use crate::control::{Controlled, Controls};
use crate::endpoints::{EndpointError, Endpoints};
use crate::faults::Trouble;
use crate::start::{self, StartError, Swept};
use crate::store::StoreError;

/// A cluster that runs for as long as this is held.
#[derive(Debug)]
pub struct Array {
    running: Arc<Running>,
    control: Control,
    nfs: Option<(SocketAddr, DropGuard)>,
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

impl Swept for Running {
    type Failure = Failure;

    async fn sweep(&self) -> Result<(), Failure> {
        self.core.sweep().await
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
        let router = server::router(Arc::clone(&running));
        let (control, stop) = start::serve(Arc::clone(&running), options.control, router).await?;
        let nfs = match options.nfs {
            None => None,
            Some(address) => {
                let serving = exports::serve(address, Arc::clone(&running.core));
                let unavailable = |source| EndpointError::Unavailable { address, source };
                Some(serving.await.map_err(unavailable)?)
            }
        };
        Ok(Self {
            nfs,
            running,
            control: Control::new(control),
            _stop: stop,
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

    /// The port for NFS, if it has one.
    pub fn nfs(&self) -> Option<SocketAddr> {
        self.nfs.as_ref().map(|(address, _)| *address)
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
