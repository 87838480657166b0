//! Serves disks to those it knows.
//!
//! - `login`: who somebody is, and what is agreed upon.
//! - `session`: requests, one after the other.
//! - `unit`: what a disk answers.

mod login;
mod session;
mod unit;

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// What a target asks before it serves.
pub trait Storage: Send + Sync + 'static {
    /// The name of the target.
    fn target_name(&self) -> String;

    /// Where the target can be reached.
    fn portals(&self) -> Vec<SocketAddr>;

    /// Who an initiator is; none for those that nobody knows, or who have nothing here.
    fn admit(&self, initiator: &str, address: IpAddr) -> Option<Guest>;

    /// The numbers of the units that a guest has now.
    fn units(&self, guest: &str) -> Vec<u64>;

    /// A unit that a guest has now.
    fn unit(&self, guest: &str, lun: u64) -> Option<Unit>;

    /// Somebody is logged in, until what is returned is dropped; the token ends the session.
    fn enter(
        &self,
        guest: &str,
        initiator: &str,
        address: IpAddr,
        end: CancellationToken,
    ) -> Box<dyn Send>;
}

/// Somebody who is known.
#[derive(Clone)]
pub struct Guest {
    /// What the storage calls it.
    pub name: String,
    /// User of its logins.
    pub user: String,
    /// Secret of its logins.
    pub secret: String,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What tells it from others: the same on every path.
    pub serial: String,
    /// What is in it.
    pub file: Arc<File>,
    /// How large it is, in bytes.
    pub size: u64,
    /// Whether nothing can be written.
    pub read_only: bool,
}

/// Serves one connection until it ends.
pub async fn serve(stream: TcpStream, storage: Arc<dyn Storage>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let address = stream.peer_addr()?.ip().to_canonical();
    let mut stream = tokio::io::BufStream::new(stream);
    let Some(agreed) = login::log_in(&mut stream, storage.as_ref(), address).await? else {
        return Ok(());
    };
    let end = CancellationToken::new();
    let _entered = agreed
        .guest
        .as_ref()
        .map(|guest| storage.enter(&guest.name, &agreed.initiator, address, end.clone()));
    let requests = session::serve(&mut stream, storage, agreed);
    tokio::select! {
        () = end.cancelled() => Ok(()),
        served = requests => served,
    }
}
