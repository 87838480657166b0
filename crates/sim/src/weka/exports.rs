//! The port for NFS: who may mount which filesystem. Whoever asks is known by the address it comes from.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::core::Core;
use super::state::nfs;
use crate::nfs::server::{self, Judge};
use crate::nfs::{Grant, GrantedSnapshots, Wanted};

/// Answers on a port; returns where, and what ends it.
pub async fn serve(address: SocketAddr, core: Arc<Core>) -> io::Result<(SocketAddr, DropGuard)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let stop = CancellationToken::new();
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let doorkeeper = Doorkeeper(Arc::clone(&core));
            tokio::spawn(async move {
                if let Err(error) = server::serve(stream, doorkeeper).await {
                    tracing::debug!(%error, "A client of NFS went away.");
                }
            });
        }
    }));
    Ok((bound, stop.drop_guard()))
}

struct Doorkeeper(Arc<Core>);

impl Judge for Doorkeeper {
    fn judge(&self, wanted: &Wanted, address: IpAddr, is_new: bool) -> Result<Grant, String> {
        let core = &self.0;
        let is_settled = core.is_nfs_settled();
        core.read(|state, now| {
            let access = nfs::access(state, wanted, address, now)?;
            // Servers of a real cluster learn of permissions one after the other.
            if is_new && !is_settled {
                return Err(nfs::DENIED.to_owned());
            }
            let (backing, uid) = (&core.backing, &access.filesystem.uid);
            let (directory, writable) = backing.snapshot_places(uid);
            Ok(Grant {
                what: uid.clone(),
                to: access.group.clone(),
                read_only: access.read_only,
                files: backing.root(uid),
                ledgers: backing.ledgers(uid).directory().to_owned(),
                snapshots: Some(GrantedSnapshots {
                    directory,
                    writable,
                }),
            })
        })
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.watch()
    }

    fn enter(&self, _: &Grant, _: &Wanted, _: IpAddr, _: CancellationToken) -> impl Send {}
}
