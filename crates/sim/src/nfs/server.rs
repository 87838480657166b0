//! The port of an array: who may mount what, and for how long.
//!
//! A client says what it wants, in one line of JSON; the array answers in one line, and in another when it takes the
//! permission back. While the connection lasts, the permission does.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Grant, Verdict, Wanted};

/// No line is longer.
const LONGEST: u64 = 4096;

/// What an array decides with.
pub trait Judge {
    /// Whether somebody at an address may mount what it wants. `is_new` is asked once for each connection; afterwards it
    /// is whether the permission still holds.
    fn judge(&self, wanted: &Wanted, address: IpAddr, is_new: bool) -> Result<Grant, String>;

    /// Wakes up whenever the answer may be another.
    fn changes(&self) -> watch::Receiver<()>;

    /// Somebody came, and stays until what is returned is dropped. The token ends the connection.
    fn enter(
        &self,
        grant: &Grant,
        wanted: &Wanted,
        address: IpAddr,
        end: CancellationToken,
    ) -> impl Send;
}

/// Answers one client until it leaves.
pub async fn serve(stream: TcpStream, judge: impl Judge) -> io::Result<()> {
    let address = stream.peer_addr()?.ip().to_canonical();
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let mut line = String::new();
    (&mut reading).take(LONGEST).read_line(&mut line).await?;
    let wanted: Wanted = serde_json::from_str(&line)?;
    let mut changes = judge.changes();
    let grant = match judge.judge(&wanted, address, true) {
        Ok(grant) => grant,
        Err(reason) => return send(&mut writing, &Verdict::Refused(reason)).await,
    };
    send(&mut writing, &Verdict::Granted(grant.clone())).await?;
    let end = CancellationToken::new();
    let _entered = judge.enter(&grant, &wanted, address, end.clone());
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
        let reason = match judge.judge(&wanted, address, false) {
            Ok(now) if now == grant => continue,
            Ok(_) => "the export changed".to_owned(),
            Err(reason) => reason,
        };
        return send(&mut writing, &Verdict::Refused(reason)).await;
    }
}

async fn send(writing: &mut (impl AsyncWriteExt + Unpin), verdict: &Verdict) -> io::Result<()> {
    let mut line = serde_json::to_vec(verdict)?;
    line.push(b'\n');
    writing.write_all(&line).await
}
