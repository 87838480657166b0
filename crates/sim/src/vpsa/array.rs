//! The whole array, running in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use tokio_util::sync::DropGuard;

use super::control::{Control, Trouble, server};
use super::core::{Core, Failure, Knobs};
use super::data::DataPlane;
use super::{Options, rest};
use crate::control::{Controlled, Controls};
use crate::endpoints::Endpoints;
use crate::start::{self, StartError, Swept};
use crate::store::StoreError;

/// An array that runs for as long as this is held.
#[derive(Debug)]
pub struct Array {
    running: Arc<Running>,
    control: Control,
    access_key: String,
    _stop: DropGuard,
}

/// What the control API works on.
#[derive(Debug)]
pub struct Running {
    /// State and data.
    pub core: Arc<Core>,
    /// Ports of the REST API.
    pub endpoints: Endpoints,
    /// Ports for data.
    pub data: DataPlane,
    router: Router,
    directory: PathBuf,
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
    /// Starts an array. Must be called inside a tokio runtime, which then serves it.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let core = Arc::new(Core::open(&options).await?);
        let tls = (!options.plain_http).then_some(options.data.as_path());
        let endpoints = Endpoints::bind(&options.listen, tls).await?;
        let running = Arc::new(Running {
            data: DataPlane::start(Arc::clone(&core), &options).await?,
            router: rest::router(Arc::clone(&core)),
            endpoints,
            core,
            directory: options.data.clone(),
        });
        let router = server::router(Arc::clone(&running));
        let (control, stop) = start::serve(Arc::clone(&running), options.control, router).await?;
        Ok(Self {
            running,
            control: Control::new(control),
            access_key: options.access_key,
            _stop: stop,
        })
    }

    /// The client of its control API.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// `host:port` of its first endpoint, as a VPSA's `hostname` has it.
    pub fn hostname(&self) -> String {
        let endpoints = self.running.endpoints.status();
        endpoints[0].address.to_string()
    }

    /// The base of the REST API at the first endpoint, without a slash at the end.
    pub fn url(&self) -> String {
        format!(
            "{}://{}/api",
            self.running.endpoints.scheme(),
            self.hostname()
        )
    }

    /// The access key it was given when it was new.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.running.directory
    }

    /// The certificate that HTTPS clients must trust, as PEM.
    pub fn ca_certificate(&self) -> std::io::Result<String> {
        std::fs::read_to_string(self.running.directory.join("ca.pem"))
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // The endpoints hold what they serve: they do not end by themselves.
        self.running.endpoints.stop_all();
        self.running.data.stop();
    }
}
