//! Shares: who may mount them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Guests;
use crate::moment::Millis;
use crate::nfs::server::{self, Judge};
use crate::nfs::{Grant, Wanted};
use crate::vpsa::control::server::Session;
use crate::vpsa::core::Core;
use crate::vpsa::state::{DataType, State, servers};

/// Who may mount shares of an array.
struct Doorkeeper {
    core: Arc<Core>,
    guests: Arc<Guests>,
}

/// Answers one client until it leaves.
pub(super) async fn serve(
    stream: TcpStream,
    core: Arc<Core>,
    guests: Arc<Guests>,
) -> io::Result<()> {
    server::serve(stream, Doorkeeper { core, guests }).await
}

impl Judge for Doorkeeper {
    fn judge(&self, wanted: &Wanted, address: IpAddr, _: bool) -> Result<Grant, String> {
        let core = &self.core;
        core.read(|state, now| grant(state, core, &wanted.export, address, now))
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.core.watch()
    }

    fn enter(
        &self,
        grant: &Grant,
        wanted: &Wanted,
        address: IpAddr,
        end: CancellationToken,
    ) -> impl Send {
        let session = Session {
            protocol: "nfs".to_owned(),
            server: grant.to.clone(),
            address,
            what: wanted.export.clone(),
        };
        self.guests.enter(session, end)
    }
}

/// Whether somebody at an address may mount an export.
fn grant(
    state: &State,
    core: &Core,
    export: &str,
    address: IpAddr,
    now: Millis,
) -> Result<Grant, String> {
    let name = export.strip_prefix("/export/").unwrap_or_default();
    let mut volumes = state.volumes.values();
    let volume = volumes
        .find(|volume| {
            volume.data_type == DataType::Nas && volume.export_name == name && volume.is_usable(now)
        })
        .ok_or("No such file or directory")?;
    let mut servers = servers::of_address(state, address);
    let attachment = servers.find_map(|server| {
        let mut attachments = state.attachments_of(&volume.id);
        attachments.find(|a| a.server == server.id && a.ready_at <= now)
    });
    let attachment = attachment.ok_or("access denied by server")?;
    Ok(Grant {
        what: volume.id.clone(),
        to: attachment.server.clone(),
        read_only: attachment.read_only,
        files: core.backing.files(&volume.id),
        ledgers: core.backing.ledgers(&volume.id).directory().to_owned(),
        snapshots: None,
    })
}
