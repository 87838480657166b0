//! A connection that carries no calls: when it ends, the driver has ended.
//!
//! A client that reconnects by itself hides restarts from its callers. This connection does not reconnect, and its
//! end is seen at once and without asking the driver anything. It speaks HTTP/2, because a gRPC server hangs up on a
//! peer that stays silent.

use std::io;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use stowage_csi::endpoint::Endpoint;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// An idle connection to one incarnation of the driver.
pub(super) struct Lifeline(BoxFuture<'static, ()>);

impl Lifeline {
    /// Connects. A process that accepts but never reads counts as not there.
    pub(super) async fn open(endpoint: &Endpoint, patience: Duration) -> io::Result<Self> {
        match timeout(patience, Self::attach(endpoint)).await {
            Ok(attached) => attached,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn attach(endpoint: &Endpoint) -> io::Result<Self> {
        let stream = UnixStream::connect(endpoint.path()).await?;
        let (requests, connection) = h2::client::handshake(stream)
            .await
            .map_err(io::Error::other)?;
        let attached = async move {
            // How it ended does not matter: what follows finds out how the driver is.
            _ = connection.await;
            // Dropped earlier, it would end the connection from this side.
            drop(requests);
        };
        Ok(Self(attached.boxed()))
    }

    /// Waits until the driver's end is gone. Cancelled, it can be called again.
    pub(super) async fn ended(&mut self) {
        (&mut self.0).await;
    }
}
