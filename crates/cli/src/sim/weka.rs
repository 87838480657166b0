//! Runs a simulated Weka cluster, its frontends, and `mount.wekafs`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use stowage_service::Service;
use stowage_sim::weka::client::JoinError;
use stowage_sim::weka::control::ControlError;
use stowage_sim::weka::frontend::FrontendError;
use stowage_sim::weka::mount_helper::{self, SOCKETS, SOCKETS_VARIABLE};
use stowage_sim::weka::{Array, Client, Frontend, FrontendOptions};

use super::{MOUNT_FAILED, install, wait};
use crate::args::{SimWekaArgs, SimWekaClientArgs, SimWekaFrontendArgs};
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

/// Puts the mount helper where pods have it.
fn install_helper(file: Option<&Path>) -> anyhow::Result<()> {
    file.map_or(Ok(()), |file| {
        install(file).with_context(|| format!("cannot put the mount helper at {}", file.display()))
    })
}

/// Serves a Weka cluster's files on one node until SIGTERM.
pub async fn frontend(args: SimWekaFrontendArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    install_helper(args.mount_helper.as_deref())?;
    let frontend = tokio::select! {
        () = service.shutdown().cancelled_owned() => None,
        frontend = patiently(|| Frontend::start(&args.frontend), is_unreachable) => Some(frontend?),
    };
    if let Some(frontend) = &frontend {
        tracing::info!(socket = %frontend.socket().display(), "Filesystems can be mounted here.");
    }
    wait(service).await
}

/// Joins a Weka cluster as the client of a node, and serves its files there until it may stop.
pub async fn client(args: SimWekaClientArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    install_helper(args.mount_helper.as_deref())?;
    let health = service.health().check("cluster");
    health.not_ready("has not joined the cluster yet");
    let client = tokio::select! {
        () = service.shutdown().cancelled_owned() => None,
        client = patiently(|| Client::join(&args.client), does_not_answer) => Some(client?),
    };
    if let Some(client) = &client {
        tracing::info!(
            container = args.client.node.container,
            "Joined the cluster."
        );
        let mut stage = client.stage();
        tokio::spawn(async move {
            loop {
                if stage.borrow_and_update().connected {
                    health.ready();
                } else {
                    health.not_ready("the cluster does not count this client as connected");
                }
                if stage.changed().await.is_err() {
                    return;
                }
            }
        });
    }
    wait(service).await?;
    if let Some(client) = client {
        client.leave().await;
    }
    Ok(())
}

/// Tries until the cluster answers: it may be younger than its clients, as where a node has booted before it.
async fn patiently<T, E: fmt::Display, F: Future<Output = Result<T, E>>>(
    start: impl Fn() -> F,
    is_away: fn(&E) -> bool,
) -> Result<T, E> {
    let mut warned = false;
    loop {
        match start().await {
            Err(error) if is_away(&error) => {
                if !warned {
                    tracing::warn!(%error, "Waiting for the cluster.");
                }
                warned = true;
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

fn is_unreachable(error: &FrontendError) -> bool {
    matches!(error, FrontendError::Cluster(ControlError::Unreachable(_)))
}

fn does_not_answer(error: &JoinError) -> bool {
    match error {
        JoinError::NoAnswer(_) => true,
        JoinError::Frontend(error) => is_unreachable(error),
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
