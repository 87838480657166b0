//! Logs in to a target, reads and writes.
//!
//! One command at a time: what uses it wants to be right, not fast.

mod connection;
mod login;

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::sync::Mutex;

use self::connection::Connection;
pub use self::login::{LoginError, discover};
use super::scsi::{self, BLOCK, Cdb, Range, Sense};

/// Blocks of one command: half a megabyte.
const MOST_BLOCKS: u64 = 1024;

/// Who logs in, where, and as whom. It has no `Debug`: it holds a secret.
#[derive(Clone)]
pub struct Login {
    /// Where the target is.
    pub portal: SocketAddr,
    /// The address to come from; whichever leads there if none.
    pub source: Option<IpAddr>,
    /// The initiator's name.
    pub initiator: String,
    /// The target's name.
    pub target: String,
    /// User and secret.
    pub chap: Option<(String, String)>,
}

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection is gone.
    #[error("the session is lost")]
    Lost(#[from] io::Error),
    /// The target says no.
    #[error("the target says no: sense {:02x}/{:02x}/{:02x}", .0.key, .0.code.0, .0.code.1)]
    Check(Sense),
}

/// A session.
#[derive(Debug)]
pub struct Session {
    connection: Mutex<Connection>,
}

impl Session {
    /// Logs in.
    pub async fn log_in(login: &Login) -> Result<Self, LoginError> {
        let connection = login::log_in(login).await?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// Logs out; the connection ends in any case.
    pub async fn log_out(&self) -> io::Result<()> {
        self.connection.lock().await.log_out().await
    }

    /// Whether the target is there.
    pub async fn ping(&self) -> io::Result<()> {
        self.connection.lock().await.ping().await
    }

    /// The numbers of the units that the target shows.
    pub async fn luns(&self) -> Result<Vec<u64>, Failure> {
        let data = self
            .command(0, &scsi::report_luns(64 << 10), 64 << 10, &[])
            .await?;
        let entries = data.get(8..).unwrap_or_default().chunks_exact(8);
        let luns = entries.map(|entry| {
            let number = u64::from(entry[0] & 0x3f) << 8 | u64::from(entry[1]);
            number & 0x3fff
        });
        Ok(luns.collect())
    }

    /// What tells a unit from all others, as `multipath` writes it.
    pub async fn wwid(&self, lun: u64) -> Result<String, Failure> {
        let data = self
            .command(lun, &scsi::inquiry(Some(0x83)), 255, &[])
            .await?;
        let name = data.get(8..24).unwrap_or_default();
        let digits: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("3{digits}"))
    }

    /// How large a unit is, in bytes.
    pub async fn size(&self, lun: u64) -> Result<u64, Failure> {
        let data = self.command(lun, &scsi::read_capacity(), 32, &[]).await?;
        let last = data.get(..8).unwrap_or(&[0; 8]);
        let last = last
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        Ok((last + 1) * BLOCK)
    }

    /// Whether a unit cannot be written.
    pub async fn is_read_only(&self, lun: u64) -> Result<bool, Failure> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[2], cdb[4]) = (0x1a, 0x3f, 4);
        let data = self.command(lun, &cdb, 4, &[]).await?;
        Ok(data.get(2).is_some_and(|flags| flags & 0x80 != 0))
    }

    /// Reads bytes; both numbers are whole blocks.
    pub async fn read(&self, lun: u64, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let mut data = Vec::new();
        for range in ranges(offset, length) {
            let expected = u32::try_from(range.length()).unwrap_or(u32::MAX);
            let cdb = scsi::transfer(range, false);
            data.extend(self.command(lun, &cdb, expected, &[]).await?);
        }
        Ok(data)
    }

    /// Writes bytes; offset and length are whole blocks.
    pub async fn write(&self, lun: u64, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let mut rest = data;
        for range in ranges(offset, data.len() as u64) {
            let length = usize::try_from(range.length()).unwrap_or(usize::MAX);
            let (part, next) = rest.split_at(length.min(rest.len()));
            self.command(lun, &scsi::transfer(range, true), 0, part)
                .await?;
            rest = next;
        }
        Ok(())
    }

    /// Makes durable what was written.
    pub async fn synchronize(&self, lun: u64) -> Result<(), Failure> {
        self.command(lun, &scsi::synchronize(), 0, &[])
            .await
            .map(drop)
    }

    async fn command(
        &self,
        lun: u64,
        cdb: &Cdb,
        expected: u32,
        written: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let mut connection = self.connection.lock().await;
        connection.command(lun, cdb, expected, written).await
    }
}

/// Commands of a size that everybody takes.
fn ranges(offset: u64, length: u64) -> impl Iterator<Item = Range> {
    let (first, blocks) = (offset / BLOCK, length / BLOCK);
    let steps = (0..blocks).step_by(usize::try_from(MOST_BLOCKS).unwrap_or(usize::MAX));
    steps.map(move |done| Range {
        first: first + done,
        count: MOST_BLOCKS.min(blocks - done),
    })
}
