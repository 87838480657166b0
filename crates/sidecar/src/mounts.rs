//! `GET /mounts`: which mounts of the driver's volumes a node has, for an operator that is about to replace the driver's pod.
//!
//! Answered on a port of its own, to whoever has the key whose SHA-256 was given. Found in the kernel's table of mounts and in the notes that the
//! kubelet keeps beside each mount; no mount is touched, so that one that hangs hangs nobody.

mod key;
mod places;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use stowage_api::causes::chain;
use stowage_api::mounts::{MountReport, PATH, VolumeMount};
use stowage_host::mountinfo::{MountInfoError, MountTable, Reader};
use stowage_service::admin::Endpoint;
use tokio::task;

pub use self::key::KeyHash;
use self::places::Place;
use crate::driver::DriverName;

/// The flags of the report.
#[derive(clap::Args, Clone, Debug)]
pub struct MountsArgs {
    /// Port on every interface that tells the operator which volumes are mounted (`/mounts`) [default: none]
    #[arg(
        long,
        help_heading = "Mounts",
        value_name = "PORT",
        requires = "mounts_key_sha256"
    )]
    pub mounts_port: Option<u16>,

    /// SHA-256 of the key that the operator shows, in 64 hexadecimal digits
    #[arg(long, help_heading = "Mounts", value_name = "HASH")]
    pub mounts_key_sha256: Option<KeyHash>,

    /// The kubelet's folder, as this process sees it; mounts must reach it (`mountPropagation: HostToContainer`)
    #[arg(
        long,
        help_heading = "Mounts",
        value_name = "DIR",
        default_value = "/var/lib/kubelet"
    )]
    pub kubelet_root: PathBuf,
}

/// Tells what is mounted.
struct Reporter {
    driver: DriverName,
    root: PathBuf,
    key: KeyHash,
    table: Reader,
}

/// Opens the port, if one is asked for, and answers until the returned future is dropped. Never ends by itself: a driver of which
/// nobody can tell what is mounted still serves its volumes.
pub(crate) async fn serve(args: &MountsArgs, driver: &DriverName) {
    let port = args.mounts_port.filter(|port| *port != 0);
    if let Some((port, key)) = port.zip(args.mounts_key_sha256.clone()) {
        let reporter = Reporter {
            driver: driver.clone(),
            root: args.kubelet_root.clone(),
            key,
            table: Reader::default(),
        };
        if let Err(error) = answer(port, reporter).await {
            let error = chain(error.as_ref());
            tracing::error!(%error, port, "Nobody can ask for mounts: the port given with --mounts-port is closed.");
        }
    }
    std::future::pending::<()>().await;
}

async fn answer(port: u16, reporter: Reporter) -> Result<(), Box<dyn Error + Send + Sync>> {
    let everywhere = Endpoint::On {
        host: String::new(),
        port,
    };
    if let Some(listener) = everywhere.bind()? {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router(reporter)).await?;
    }
    Ok(())
}

fn router(reporter: Reporter) -> Router {
    Router::new()
        .route(PATH, get(mounts))
        .with_state(Arc::new(reporter))
}

async fn mounts(State(reporter): State<Arc<Reporter>>, headers: HeaderMap) -> Response {
    let shown = headers.get(header::AUTHORIZATION);
    let shown = shown.and_then(|it| it.as_bytes().strip_prefix(b"Bearer "));
    if !shown.is_some_and(|key| reporter.key.is_of(key)) {
        return (StatusCode::UNAUTHORIZED, "only the operator may ask\n").into_response();
    }
    // The kubelet's folder may be on a slow disk.
    match task::spawn_blocking(move || reporter.report()).await {
        Ok(Ok(report)) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (json, serde_json::json!(report).to_string()).into_response()
        }
        Ok(Err(error)) => {
            let text = format!("{error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

impl Reporter {
    fn report(&self) -> Result<MountReport, MountInfoError> {
        let table = self.table.table()?;
        let driver = self.driver.to_string();
        let mounts = found(&table, &self.root, &driver, note);
        Ok(MountReport { driver, mounts })
    }
}

/// What the kubelet notes down beside a mount.
#[derive(Clone, Debug, Deserialize)]
struct Note {
    #[serde(rename = "driverName")]
    driver: String,
    #[serde(rename = "specVolID")]
    volume: Option<String>,
}

/// The note in a file; none where there is none that can be read.
fn note(path: &Path) -> Option<Note> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The mounts of a driver's volumes. What looks like a volume's and bears no name counts: nobody else would miss it.
fn found(
    table: &MountTable,
    root: &Path,
    driver: &str,
    note: impl Fn(&Path) -> Option<Note>,
) -> Vec<VolumeMount> {
    let below = table.under(root);
    let mut mounts: Vec<_> = below
        .filter_map(|mount| {
            let path = mount.point().strip_prefix(root).ok()?;
            let place = Place::of(path)?;
            let note = note(&root.join(&place.note));
            let of = place.driver.or(note.as_ref().map(|it| it.driver.clone()));
            let is_ours = match of {
                Some(of) => of == driver,
                None => place.is_certain,
            };
            is_ours.then(|| VolumeMount {
                path: path.to_string_lossy().into_owned(),
                pod: place.pod,
                volume: note.and_then(|it| it.volume),
            })
        })
        .collect();
    mounts.sort_unstable();
    mounts.dedup();
    mounts
}

#[cfg(test)]
mod tests;
