//! A mounted export, and the permission behind it.
//!
//! The permission lasts as long as the connection to the array. While the array is away, operations wait, as those of a hard mount
//! do, or end with EIO on a soft one. When the array takes the permission back, they end with ESTALE until it is given
//! again.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use fuser::Session;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Grant, Verdict, Wanted};
use crate::files::ledger::Ledgers;
use crate::files::served::{Gate, Served};
use crate::files::tree::{Snapshots, Tree};
use crate::mounting;

/// How long an array may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long apart an array is asked again, and waiting operations look.
const PAUSE: Duration = Duration::from_millis(50);

/// From where and to which port a node connects.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Network {
    /// Address of the node that arrays see [default: whichever leads to them]
    #[arg(long, value_name = "IP")]
    pub ip: Option<IpAddr>,

    /// Port of arrays for NFS, unless a mount names another
    #[arg(long = "nfs-port", value_name = "PORT", default_value_t = 2049)]
    pub port: u16,
}

/// An export that may be mounted.
#[derive(Debug)]
pub struct Share {
    grant: Grant,
    portal: Portal,
    connection: Connection,
    soft: bool,
}

/// Where an export is, and from where it is reached.
#[derive(Clone, Debug)]
struct Portal {
    address: SocketAddr,
    source: Option<IpAddr>,
    wanted: Wanted,
}

type Connection = BufReader<TcpStream>;

impl Share {
    /// Asks the array that a source names for permission; the error is what `mount.nfs` says.
    pub async fn ask(source: &str, options: &[String], network: Network) -> Result<Self, String> {
        let port = options
            .iter()
            .find_map(|option| option.strip_prefix("port=")?.parse().ok());
        let (ip, export) = parse_source(source).ok_or_else(|| {
            format!("`{source}` is not an address and a path, such as 10.0.0.1:/export/name")
        })?;
        let portal = Portal {
            address: SocketAddr::new(ip, port.unwrap_or(network.port)),
            source: network.ip,
            wanted: Wanted::new(export, ip, options),
        };
        let (verdict, connection) = portal
            .ask()
            .await
            .map_err(|error| format!("{}: {error}", portal.address))?;
        match verdict {
            Verdict::Granted(grant) => Ok(Self {
                grant,
                portal,
                connection,
                soft: options.iter().any(|option| option == "soft"),
            }),
            Verdict::Refused(reason) => Err(format!("{reason} while mounting {source}")),
        }
    }

    /// Whether it can only be read.
    pub fn is_read_only(&self) -> bool {
        self.grant.read_only
    }

    /// Serves what was mounted, for as long as the permission lasts.
    pub fn serve(self, descriptor: OwnedFd, runtime: &Handle) -> io::Result<Session<Served>> {
        let ledgers = Ledgers::new(self.grant.ledgers.clone());
        let snapshots = self.grant.snapshots.clone().map(|it| Snapshots {
            directory: it.directory,
            writable: it.writable,
        });
        let tree = Tree::open(&self.grant.files, ledgers, snapshots)?;
        let stop = CancellationToken::new();
        let standing = Arc::new(Mutex::new(Standing::Granted));
        let watch = watch(
            self.portal,
            self.grant,
            self.connection,
            Arc::clone(&standing),
        );
        runtime.spawn(stop.clone().run_until_cancelled_owned(watch));
        let gate = PermissionGate {
            standing,
            soft: self.soft,
            _stop: stop.drop_guard(),
        };
        mounting::session(Served::new(tree).behind(gate), descriptor)
    }
}

/// `10.0.0.1:/export/name`, `[fd00::1]:/export/name`.
fn parse_source(source: &str) -> Option<(IpAddr, &str)> {
    let (host, path) = source.split_once(":/")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let path = &source[source.len() - path.len() - 1..];
    Some((host.parse().ok()?, path))
}

impl Portal {
    async fn ask(&self) -> io::Result<(Verdict, Connection)> {
        let asking = async {
            let socket = match self.address {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            if let Some(source) = self.source {
                socket.bind(SocketAddr::new(source, 0))?;
            }
            let mut stream = socket.connect(self.address).await?;
            let mut line = serde_json::to_vec(&self.wanted)?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            let mut connection = BufReader::new(stream);
            let verdict = receive(&mut connection).await?;
            Ok((verdict, connection))
        };
        timeout(TIMEOUT, asking)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

async fn receive(connection: &mut Connection) -> io::Result<Verdict> {
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// How things stand between a node and an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Granted,
    Away,
    Refused,
}

/// Keeps the standing current, and asks again when it is not good.
async fn watch(
    portal: Portal,
    grant: Grant,
    mut connection: Connection,
    standing: Arc<Mutex<Standing>>,
) {
    loop {
        // As long as the permission lasts, the array says nothing.
        let end = receive(&mut connection).await;
        *standing.lock() = if matches!(end, Ok(Verdict::Refused(_))) {
            Standing::Refused
        } else {
            Standing::Away
        };
        connection = loop {
            sleep(PAUSE).await;
            match portal.ask().await {
                Ok((Verdict::Granted(again), connection)) if again == grant => break connection,
                Ok(_) => *standing.lock() = Standing::Refused,
                Err(_) => *standing.lock() = Standing::Away,
            }
        };
        *standing.lock() = Standing::Granted;
    }
}

/// Lets operations pass while there is permission.
#[derive(Debug)]
struct PermissionGate {
    standing: Arc<Mutex<Standing>>,
    soft: bool,
    _stop: DropGuard,
}

impl Gate for PermissionGate {
    fn pass(&self) -> io::Result<()> {
        loop {
            let standing = *self.standing.lock();
            match standing {
                Standing::Granted => return Ok(()),
                Standing::Refused => return Err(io::Error::from_raw_os_error(libc::ESTALE)),
                Standing::Away if self.soft => return Err(io::Error::from_raw_os_error(libc::EIO)),
                Standing::Away => thread::sleep(PAUSE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_address_and_a_path() {
        let (ip, path) = parse_source("10.0.0.1:/export/pvc-1").unwrap();
        assert_eq!(
            (ip.to_string().as_str(), path),
            ("10.0.0.1", "/export/pvc-1")
        );
        let (ip, path) = parse_source("[fd00::1]:/export/a:/b").unwrap();
        assert_eq!((ip.to_string().as_str(), path), ("fd00::1", "/export/a:/b"));
        for wrong in ["", "10.0.0.1", "10.0.0.1:export", "vpsa:/export/x"] {
            assert!(parse_source(wrong).is_none(), "{wrong}");
        }
    }
}
