//! Shares: who may mount them, and for how long.
//!
//! Stands in for the NFS port of an array. A client says which export it wants, in one line of JSON; the array answers in
//! one line, and in another when it takes the permission back. While the connection lasts, the permission does.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::Guests;
use crate::moment::Millis;
use crate::vpsa::control::server::Session;
use crate::vpsa::core::Core;
use crate::vpsa::state::{DataType, State, servers};

/// No line is longer.
const LONGEST: u64 = 4096;

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The path of an export, such as `/export/name`.
    pub export: String,
}

/// What the array says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It may be mounted.
    Granted(Grant),
    /// It may not, or not any more.
    Refused(String),
}

/// A share that may be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The volume.
    pub volume: String,
    /// The server that the client is.
    pub server: String,
    /// Whether it can only be read.
    pub read_only: bool,
    /// Where the files are.
    pub files: PathBuf,
    /// Where it is counted how large the share is.
    pub ledgers: PathBuf,
}

/// Answers one client until it leaves.
pub(super) async fn serve(
    stream: TcpStream,
    core: Arc<Core>,
    guests: Arc<Guests>,
) -> io::Result<()> {
    let address = stream.peer_addr()?.ip().to_canonical();
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let mut line = String::new();
    (&mut reading).take(LONGEST).read_line(&mut line).await?;
    let wanted: Wanted = serde_json::from_str(&line)?;
    let mut changes = core.watch();
    let judge = || core.read(|state, now| grant(state, &core, &wanted.export, address, now));
    let grant = match judge() {
        Ok(grant) => grant,
        Err(reason) => return send(&mut writing, &Verdict::Refused(reason)).await,
    };
    send(&mut writing, &Verdict::Granted(grant.clone())).await?;
    let end = CancellationToken::new();
    let session = Session {
        protocol: "nfs".to_owned(),
        server: grant.server.clone(),
        address,
        what: wanted.export.clone(),
    };
    let _entered = guests.enter(session, end.clone());
    loop {
        let mut byte = [0];
        tokio::select! {
            () = end.cancelled() => return Ok(()),
            // A client says nothing more: this is its end.
            read = reading.read(&mut byte) => return read.map(drop),
            next = changes.changed() => if next.is_err() {
                return Ok(());
            },
        }
        match judge() {
            Ok(now) if now == grant => {}
            Ok(_) => {
                return send(
                    &mut writing,
                    &Verdict::Refused("the share changed".to_owned()),
                )
                .await;
            }
            Err(reason) => return send(&mut writing, &Verdict::Refused(reason)).await,
        }
    }
}

async fn send(writing: &mut (impl AsyncWriteExt + Unpin), verdict: &Verdict) -> io::Result<()> {
    let mut line = serde_json::to_vec(verdict)?;
    line.push(b'\n');
    writing.write_all(&line).await
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
        volume: volume.id.clone(),
        server: attachment.server.clone(),
        read_only: attachment.read_only,
        files: core.backing.files(&volume.id),
        ledgers: core.backing.ledgers(&volume.id).directory().to_owned(),
    })
}
