//! Runs a simulated Weka cluster, its frontends, and `mount.wekafs`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use stowage_service::Service;
use stowage_sim::weka::control::ControlError;
use stowage_sim::weka::frontend::FrontendError;
use stowage_sim::weka::mount_helper::{self, SOCKETS, SOCKETS_VARIABLE};
use stowage_sim::weka::{Array, Frontend, FrontendOptions};

use super::{MOUNT_FAILED, install, wait};
use crate::args::{SimWekaArgs, SimWekaFrontendArgs};
use crate::output;

/// How long a cluster that does not answer is left alone.
const PAUSE: Duration = Duration::from_millis(250);

/// Serves a Weka cluster, and its files on this host, until SIGTERM.
pub async fn array(args: SimWekaArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let array = Array::start(args.cluster).await?;
    tracing::info!(
        url = %array.url(),
        control = %array.control().url(),
        data = %array.data().display(),
        "The Weka cluster runs."
    );
    if array.scheme() == "https" {
        let certificate = array.data().join("ca.pem");
        tracing::info!(certificate = %certificate.display(), "Clients must trust its certificate.");
    }
    let options = FrontendOptions {
        data: array.data().to_owned(),
        array: array.control().url().to_owned(),
        node: args.frontend,
    };
    let frontend = if args.no_frontend {
        None
    } else {
        Some(Frontend::start(&options).await?)
    };
    if let Some(frontend) = &frontend {
        tracing::info!(socket = %frontend.socket().display(), "Filesystems can be mounted here.");
    }
    wait(service).await
}

/// Serves a Weka cluster's files on one node until SIGTERM.
pub async fn frontend(args: SimWekaFrontendArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    if let Some(file) = &args.mount_helper {
        install(file)
            .with_context(|| format!("cannot put the mount helper at {}", file.display()))?;
    }
    let frontend = tokio::select! {
        () = service.shutdown().cancelled_owned() => None,
        frontend = patient_frontend(&args.frontend) => Some(frontend?),
    };
    if let Some(frontend) = &frontend {
        tracing::info!(socket = %frontend.socket().display(), "Filesystems can be mounted here.");
    }
    wait(service).await
}

/// Waits for a cluster that is not up yet, as the client of a node does that has booted before it.
async fn patient_frontend(options: &FrontendOptions) -> Result<Frontend, FrontendError> {
    let mut warned = false;
    loop {
        match Frontend::start(options).await {
            Err(FrontendError::Cluster(error @ ControlError::Unreachable(_))) => {
                if !warned {
                    tracing::warn!(%error, array = options.array, "Waiting for the cluster.");
                }
                warned = true;
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Mounts, as mount(8) asks a helper to.
pub fn mount(arguments: Vec<OsString>) -> ExitCode {
    let sockets =
        std::env::var_os(SOCKETS_VARIABLE).map_or_else(|| PathBuf::from(SOCKETS), PathBuf::from);
    match mount_helper::parse(arguments).and_then(|request| mount_helper::run(&request, &sockets)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.into());
            ExitCode::from(MOUNT_FAILED)
        }
    }
}
