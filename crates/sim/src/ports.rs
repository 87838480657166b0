//! TCP ports: how they are opened again, and how every connection to them is answered.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How often, and how long apart, it is tried to open a port again.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// How long it is waited when no connection can be accepted: there may be too many.
const TOO_MANY: Duration = Duration::from_millis(50);

/// Opens a port. One that was just closed may be taken for a moment.
pub async fn open_again(address: SocketAddr) -> io::Result<TcpListener> {
    for _ in 0..ATTEMPTS {
        if let Ok(listener) = TcpListener::bind(address).await {
            return Ok(listener);
        }
        tokio::time::sleep(PAUSE).await;
    }
    TcpListener::bind(address).await
}

/// Answers every connection to a port until it is told to stop; then those that are open end, too.
pub async fn accept<F>(
    listener: TcpListener,
    stop: CancellationToken,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (connection, stop) = (serve(stream), stop.clone());
                tokio::spawn(async move { stop.run_until_cancelled(connection).await });
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot accept a connection.");
                tokio::time::sleep(TOO_MANY).await;
            }
        }
    }
}
