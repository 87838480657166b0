//! A driver's socket, whose connections can be broken.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::server::{MendedStream, ServeError, Shutdown, Socket, accept, serve_accepted};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::service::Routes;
use tonic::transport::server::Connected;

/// What a socket offers beside Identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    /// Controller, group controller and node.
    All,
    /// Controller and group controller.
    Controller,
    /// Node.
    Node,
}

/// A driver that is being served. Dropped, it is gone like a process that was killed: without a last answer.
#[derive(Debug)]
pub struct Serving {
    shutdown: CancellationToken,
    wires: CancellationToken,
    server: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Serving {
    pub(super) fn start(socket: Socket, routes: Routes, shutdown: CancellationToken) -> Self {
        let wires = CancellationToken::new();
        let of_connection = wires.clone();
        let connections = accept(socket).expect("a runtime to listen with");
        let connections = connections.map(move |connection| {
            connection.map(|inner| Severable::new(inner, of_connection.child_token()))
        });
        let end = Shutdown {
            token: shutdown.clone(),
            grace: Duration::ZERO,
        };
        let serving = serve_accepted(connections, routes, ServerMetrics::default(), end);
        Self {
            shutdown,
            wires,
            server: Some(tokio::spawn(serving)),
        }
    }

    /// Ends it in an orderly way: calls under way are answered UNAVAILABLE, the socket's file is removed.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        if let Some(server) = self.server.take() {
            let ended = server.await.expect("a server that does not panic");
            ended.expect("a server that ends in order");
        }
    }

    /// Ends it like `kill -9`: every connection breaks, no call is answered.
    pub fn crash(self) {
        drop(self);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.wires.cancel();
        self.shutdown.cancel();
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// The connection a call came over.
#[derive(Clone, Debug)]
pub(super) struct Wire(CancellationToken);

impl Wire {
    /// Breaks it.
    pub(super) fn cut(&self) {
        self.0.cancel();
    }
}

/// A connection that ends when its wire is cut.
struct Severable {
    inner: MendedStream,
    wire: CancellationToken,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Severable {
    fn new(inner: MendedStream, wire: CancellationToken) -> Self {
        Self {
            inner,
            cut: Box::pin(wire.clone().cancelled_owned()),
            wire,
        }
    }

    fn is_cut(&self) -> io::Result<()> {
        if self.wire.is_cancelled() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl Connected for Severable {
    type ConnectInfo = Wire;

    fn connect_info(&self) -> Wire {
        Wire(self.wire.clone())
    }
}

impl AsyncRead for Severable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A server always waits for the next call, so this is where it hears of the end.
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Severable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_cut()?;
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_cut()?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
