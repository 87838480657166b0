//! Serves a driver on its UNIX socket.
//!
//! Every call passes the [`layer`](crate::layer): span, metrics, deadline, and a panic that ends one call only.

mod authority;
mod socket;

use std::io;
use std::time::Duration;

use futures::{FutureExt as _, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::server::Connected;

pub use self::authority::MendedStream;
use self::socket::SocketFile;
pub use self::socket::{Socket, SocketError};
use crate::layer::CallLayer;
use crate::metrics::ServerMetrics;

/// How long it takes at most to send an answer that is ready.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why serving ended before anybody asked for it.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime cannot watch the socket.
    #[error("cannot register the socket with the runtime")]
    Runtime(#[source] io::Error),
    /// The transport gave up.
    #[error("the gRPC server stopped")]
    Transport(#[from] tonic::transport::Error),
}

/// How a server ends.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Cancelled when the process should stop.
    pub token: CancellationToken,
    /// How long calls may go on then. What still runs afterwards is dropped and answered UNAVAILABLE,
    /// upon which the caller repeats the same call.
    pub grace: Duration,
}

/// Serves `routes` until `shutdown`, then lets the calls under way finish.
///
/// New calls are refused and the socket's file is removed as soon as the token is cancelled.
/// An RPC or a service that is not in `routes` answers UNIMPLEMENTED.
pub async fn serve(
    socket: Socket,
    routes: Routes,
    metrics: ServerMetrics,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    serve_accepted(accept(socket)?, routes, metrics, shutdown).await
}

/// The same for connections that were accepted elsewhere.
pub async fn serve_accepted<C>(
    connections: impl Stream<Item = io::Result<C>>,
    routes: Routes,
    metrics: ServerMetrics,
    shutdown: Shutdown,
) -> Result<(), ServeError>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let layer = CallLayer::new(metrics);
    let serving = tonic::transport::Server::builder()
        .layer(layer.clone())
        .serve_with_incoming_shutdown(
            routes.prepare(),
            connections,
            shutdown.token.clone().cancelled_owned(),
        );
    tokio::pin!(serving);

    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        () = shutdown.token.cancelled() => {}
    }
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        // Connections may stay open forever, calls do not.
        () = quiet(&layer) => return Ok(()),
        () = sleep(shutdown.grace) => {}
    }
    tracing::warn!(grace = ?shutdown.grace, "Calls did not end within the grace period and were cut off.");
    layer.cut_off();
    match timeout(LAST_ANSWERS, serving).await {
        Ok(ended) => Ok(ended?),
        // A client that does not read its answer must not hold up the end of the process.
        Err(_) => Ok(()),
    }
}

/// Waits until there were no calls for a moment: the last answers are sent by then, and a call that was on its
/// way when the end was announced has shown itself.
async fn quiet(layer: &CallLayer) {
    loop {
        layer.idle().await;
        sleep(LAST_ANSWERS).await;
        if layer.idle().now_or_never().is_some() {
            return;
        }
    }
}

/// Accepted connections. Dropped when the server stops accepting, and with it the socket's file.
pub fn accept(socket: Socket) -> Result<impl Stream<Item = io::Result<MendedStream>>, ServeError> {
    let (listener, file) = socket.into_parts();
    let listener = UnixListener::from_std(listener).map_err(ServeError::Runtime)?;
    let next = |(listener, file): (UnixListener, SocketFile)| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((Ok(MendedStream::new(stream)), (listener, file))),
                // Mostly "too many open files", which lasts: without the pause this loop would burn a core.
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection.");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    Ok(futures::stream::unfold((listener, file), next))
}
