//! The ports of the REST API, which stop and start one by one.

mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::ports;

/// On a response: close the connection instead of sending it.
#[derive(Clone, Copy, Debug)]
pub struct Unsent;

/// On a request: the number of the endpoint it came to.
#[derive(Clone, Copy, Debug)]
pub struct EndpointNumber(pub usize);

/// Why ports cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Somebody else has the port, or it is none of this machine's addresses.
    #[error("cannot listen on {address}")]
    Unavailable {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No certificate can be made or kept.
    #[error("cannot create a certificate")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There are fewer.
    #[error("endpoint {0} does not exist")]
    Unknown(usize),
}

/// The ports of the REST API.
#[derive(Debug)]
pub struct Endpoints {
    list: Vec<Endpoint>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

#[derive(Debug)]
struct Endpoint {
    address: SocketAddr,
    /// The port from the moment it is bound until it is served.
    listener: Mutex<Option<std::net::TcpListener>>,
    serving: Mutex<Option<CancellationToken>>,
}

impl Endpoint {
    fn stop(&self) {
        drop(self.listener.lock().take());
        if let Some(stop) = self.serving.lock().take() {
            stop.cancel();
        }
    }
}

/// How an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStatus {
    /// Its address and port.
    pub address: SocketAddr,
    /// Whether it answers.
    pub running: bool,
}

impl Endpoints {
    /// Takes the ports; nothing answers yet. With `tls`, writes `ca.pem` into that directory.
    pub async fn bind(addresses: &[SocketAddr], tls: Option<&Path>) -> Result<Self, EndpointError> {
        let mut list = Vec::with_capacity(addresses.len());
        for address in addresses {
            let listener = listen(*address).await?;
            list.push(Endpoint {
                address: listener.local_addr().map_err(unavailable(*address))?,
                listener: Mutex::new(Some(listener)),
                serving: Mutex::default(),
            });
        }
        let tls = tls
            .map(|directory| tls::server_config(directory, addresses))
            .transpose()
            .map_err(EndpointError::Certificate)?;
        Ok(Self { list, tls })
    }

    /// Whether they serve HTTPS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.is_secure() { "https" } else { "http" }
    }

    /// How each is.
    pub fn status(&self) -> Vec<EndpointStatus> {
        self.list
            .iter()
            .map(|endpoint| EndpointStatus {
                address: endpoint.address,
                running: endpoint.serving.lock().is_some(),
            })
            .collect()
    }

    /// Lets one answer. Called twice: it answers already.
    pub async fn start(&self, number: usize, router: &Router) -> Result<(), EndpointError> {
        let endpoint = self.get(number)?;
        if endpoint.serving.lock().is_some() {
            return Ok(());
        }
        let bound = endpoint.listener.lock().take();
        let listener = match bound {
            Some(listener) => TcpListener::from_std(listener),
            None => ports::open_again(endpoint.address).await,
        };
        let listener = listener.map_err(unavailable(endpoint.address))?;
        let stop = CancellationToken::new();
        let tls = self.tls.clone().map(TlsAcceptor::from);
        *endpoint.serving.lock() = Some(stop.clone());
        let router = router
            .clone()
            .layer(axum::Extension(EndpointNumber(number)));
        tokio::spawn(answer_all(listener, tls, router, stop));
        Ok(())
    }

    /// Closes one, and every connection to it. Called twice: it is closed already.
    pub fn stop(&self, number: usize) -> Result<(), EndpointError> {
        self.get(number)?.stop();
        Ok(())
    }

    /// Closes all.
    pub fn stop_all(&self) {
        self.list.iter().for_each(Endpoint::stop);
    }

    fn get(&self, number: usize) -> Result<&Endpoint, EndpointError> {
        self.list.get(number).ok_or(EndpointError::Unknown(number))
    }
}

fn unavailable(address: SocketAddr) -> impl Fn(io::Error) -> EndpointError {
    move |source| EndpointError::Unavailable { address, source }
}

async fn listen(address: SocketAddr) -> Result<std::net::TcpListener, EndpointError> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(unavailable(address))?;
    listener.into_std().map_err(unavailable(address))
}

/// Answers every connection to a port until it is told to stop.
pub async fn answer_all(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) {
    let serve = |stream| serve(stream, tls.clone(), router.clone());
    ports::accept(listener, stop, serve).await;
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => answer(stream, router).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => answer(stream, router).await,
            Err(error) => tracing::debug!(%error, "A TLS handshake failed."),
        },
    }
}

/// Answers one connection until it ends. How it ends is the client's business.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, router: Router) {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(Body::new)).await;
            let response = response.unwrap_or_else(|never: Infallible| match never {});
            sendable(response)
        }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An error closes the connection.
fn sendable(response: Response) -> io::Result<Response> {
    match response.extensions().get::<Unsent>() {
        Some(Unsent) => Err(io::Error::other("dropped on purpose")),
        None => Ok(response),
    }
}
