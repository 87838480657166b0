//! `GET /mounts`: which mounts of the driver's volumes a node has, for an operator that is about to replace the driver's pod.
//!
//! Answered on a port of its own, to whoever has the key whose SHA-256 was given. No mount is touched, so that one that hangs hangs nobody.

mod key;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use stowage_api::causes::chain;
use stowage_api::mounts::{MountReport, PATH, VolumeMount};
use stowage_host::kubelet::{Mounted, mounts_of};
use stowage_host::mountinfo::{MountInfoError, Reader};
use stowage_service::admin::Endpoint;
use tokio::task;

pub use self::key::KeyHash;
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
        let mounts = mounts_of(&driver, &table, &self.root);
        let mounts = mounts.into_iter().map(told).collect();
        Ok(MountReport { driver, mounts })
    }
}

fn told(mounted: Mounted) -> VolumeMount {
    VolumeMount {
        path: mounted.path.to_string_lossy().into_owned(),
        pod: mounted.pod,
        volume: mounted.volume,
    }
}
