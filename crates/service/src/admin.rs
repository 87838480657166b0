//! The HTTP port for people, probes and scrapers: health, readiness, metrics, log level.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz` | 200 while the process can answer at all; a process that speaks for another one ([`Health::speak_for`]): whether that one is alive |
//! | `/healthz/leader-election` | 200 while the process can answer at all; manifests written for the Go sidecars probe this path |
//! | `/readyz` | 200 when every check is ready, 503 otherwise; `?verbose` lists the checks |
//! | `/metrics` (`--metrics-path`) | the metrics |
//! | `/loglevel` | GET: the log filter; PUT: changes it, from inside the pod only |
//!
//! There is no TLS and no login: nothing that is served is secret, and the one thing that changes the process is refused
//! to peers from elsewhere. A leader that cannot renew its lease steps down by itself (see [`crate::lease`]), so that
//! the leader-election probe has nothing of its own to find out.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::str::FromStr;
use std::{fmt, io};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::log::{Directives, LogLevel};
use crate::metrics::CONTENT_TYPE;
use crate::{Health, Metrics};

/// Where the HTTP port is.
///
/// A role with another default sets it when it flattens these:
/// `#[command(mut_arg("http_endpoint", |arg| arg.default_value("")))]`.
#[derive(clap::Args, Clone, Debug)]
pub struct AdminArgs {
    /// Address for health, readiness, metrics and log level; `:PORT` is every interface, empty is none
    #[arg(
        long,
        help_heading = "HTTP",
        value_name = "ADDR:PORT",
        default_value = ":8080"
    )]
    pub http_endpoint: Endpoint,

    /// A further address for the same, which manifests of Go programs may carry
    #[arg(long, hide = true, value_name = "ADDR:PORT", default_value = "")]
    pub metrics_address: Endpoint,

    /// Path of the metrics
    #[arg(long, help_heading = "HTTP", value_name = "PATH", default_value = "/metrics", value_parser = metrics_path)]
    pub metrics_path: String,
}

/// An address to listen on, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// No HTTP port.
    Off,
    /// Listen here.
    On {
        /// Name or address; empty for every interface.
        host: String,
        /// Port; 0 lets the kernel choose.
        port: u16,
    },
}

/// A text that is not an address to listen on.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a valid address to listen on: write ADDR:PORT, or `:PORT` for every interface"
)]
pub struct EndpointError(String);

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::Off);
        }
        let wrong = || EndpointError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let unbracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if unbracketed.is_none() && host.contains([':', '[', ']']) {
            return Err(wrong());
        }
        let host = unbracketed.unwrap_or(host).to_owned();
        Ok(Self::On {
            host,
            port: port.parse().map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => Ok(()),
            Self::On { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::On { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

fn metrics_path(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    let taken = [
        "/healthz",
        "/healthz/leader-election",
        "/readyz",
        "/loglevel",
    ];
    if !text.starts_with('/') || !text.chars().all(plain) {
        return Err("write a plain path such as `/metrics`".to_owned());
    }
    if taken.contains(&text) {
        return Err("this path serves something else".to_owned());
    }
    Ok(text.to_owned())
}

/// Why the HTTP port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error(
        "`{0}` is already in use by another process: choose another address with --http-endpoint"
    )]
    Taken(Endpoint),
    /// Anything else, such as an address of another machine.
    #[error("cannot listen on `{endpoint}`, the address given with --http-endpoint")]
    Refused {
        /// The address that was asked for.
        endpoint: Endpoint,
        /// What the kernel says.
        source: io::Error,
    },
}

impl Endpoint {
    /// Opens the port, if there is one to open.
    pub fn bind(&self) -> Result<Option<TcpListener>, BindError> {
        let Self::On { host, port } = self else {
            return Ok(None);
        };
        let bound = if host.is_empty() {
            bind_all(*port)
        } else {
            TcpListener::bind((host.as_str(), *port))
        };
        match bound {
            Ok(listener) => Ok(Some(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(BindError::Taken(self.clone()))
            }
            Err(source) => Err(BindError::Refused {
                endpoint: self.clone(),
                source,
            }),
        }
    }
}

/// The IPv6 wildcard takes IPv4 connections as well; a kernel without IPv6 has only the other one.
fn bind_all(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        }
        bound => bound,
    }
}

/// What the paths answer from.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The checks of `/readyz`.
    pub health: Health,
    /// The metrics.
    pub metrics: Metrics,
    /// The level of `/loglevel`.
    pub level: LogLevel,
}

impl Admin {
    /// Serves `listener` until the returned future is dropped.
    pub async fn serve(self, listener: TcpListener, metrics_path: &str) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = self.router(metrics_path);
        axum::serve(
            listener,
            router.into_make_service_with_connect_info::<SocketAddr>(),
        )
        .await
    }

    fn router(self, metrics_path: &str) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/healthz/leader-election", get("ok\n"))
            .route("/readyz", get(readyz))
            .route("/loglevel", get(log_level).put(change_log_level))
            .route(metrics_path, get(metrics))
            .with_state(self)
    }
}

async fn healthz(State(admin): State<Admin>) -> (StatusCode, String) {
    match admin.health.alive().await {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(sentence) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{sentence}\n")),
    }
}

async fn readyz(State(admin): State<Admin>, uri: Uri) -> (StatusCode, String) {
    let report = admin.health.report();
    let verbose = uri
        .query()
        .is_some_and(|query| query.split('&').any(|key| key.starts_with("verbose")));
    match (report.is_ready(), verbose) {
        (true, false) => (StatusCode::OK, "ok\n".to_owned()),
        (true, true) => (StatusCode::OK, report.verbose()),
        // A failed probe shows this body in the pod's events: always say which check it was.
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, report.verbose()),
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    match admin.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be encoded\n",
        )
            .into_response(),
    }
}

async fn log_level(State(admin): State<Admin>) -> String {
    admin.level.current() + "\n"
}

async fn change_log_level(
    State(admin): State<Admin>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: String,
) -> (StatusCode, String) {
    // A dual-stack socket shows IPv4 peers as ::ffff:127.0.0.1, which is not the loopback address of IPv6.
    if !peer.ip().to_canonical().is_loopback() {
        let sentence = "the log level can be changed only from inside the pod: use kubectl port-forward or exec\n";
        return (StatusCode::FORBIDDEN, sentence.to_owned());
    }
    match body.parse::<Directives>() {
        Ok(directives) => {
            admin.level.set(&directives);
            (StatusCode::OK, admin.level.current() + "\n")
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test may wait")]
mod tests;
