//! The ports for data: disks over iSCSI, shares for those who ask as the stand-in for `mount.nfs` does.
//!
//! Both know who asks by the address they come from, and disks also by the name and the secret of the initiator.

pub mod shares;
mod units;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use self::units::Units;
use super::Options;
use super::control::server::Session;
use super::core::Core;
use crate::endpoints::EndpointError;
use crate::iscsi::target;
use crate::ports;

/// The ports for data.
#[derive(Debug)]
pub struct DataPlane {
    core: Arc<Core>,
    guests: Arc<Guests>,
    ports: Ports,
    /// Ends what listens on an address; none while nothing does.
    listening: Mutex<BTreeMap<IpAddr, CancellationToken>>,
}

/// Where data is served.
#[derive(Clone, Debug)]
struct Ports {
    addresses: Vec<IpAddr>,
    iscsi: u16,
    nfs: u16,
}

/// Who uses data.
#[derive(Debug, Default)]
pub(in crate::vpsa) struct Guests(Mutex<Vec<(u64, Session, CancellationToken)>>);

impl Guests {
    /// Remembers somebody until what is returned is dropped; the token ends them.
    fn enter(self: &Arc<Self>, session: Session, end: CancellationToken) -> Entered {
        let mut guests = self.0.lock();
        let number = guests.last().map_or(0, |(number, ..)| number + 1);
        guests.push((number, session, end));
        Entered {
            guests: Arc::clone(self),
            number,
        }
    }
}

/// Somebody who uses data.
pub(in crate::vpsa) struct Entered {
    guests: Arc<Guests>,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let number = self.number;
        self.guests.0.lock().retain(|(known, ..)| *known != number);
    }
}

impl DataPlane {
    /// Opens the ports, unless there are to be none.
    pub async fn start(core: Arc<Core>, options: &Options) -> Result<Self, EndpointError> {
        let has_ipv6 = options.address.iter().any(IpAddr::is_ipv6);
        let any: IpAddr = if has_ipv6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let addresses = match (options.no_data, options.any_address) {
            (true, _) => Vec::new(),
            (false, true) => vec![any],
            (false, false) => options.address.clone(),
        };
        let first = addresses.first().copied().unwrap_or(any);
        let plane = Self {
            core,
            guests: Arc::default(),
            ports: Ports {
                addresses,
                iscsi: options.iscsi_port,
                nfs: options.nfs_port,
            },
            listening: Mutex::default(),
        };
        plane
            .set_up(None, true)
            .await
            .map_err(|source| EndpointError::Unavailable {
                address: SocketAddr::new(first, options.iscsi_port),
                source,
            })?;
        Ok(plane)
    }

    /// Closes the ports, and every connection to them.
    pub fn stop(&self) {
        for (_, listening) in std::mem::take(&mut *self.listening.lock()) {
            listening.cancel();
        }
        self.drop_sessions();
    }

    /// Opens the ports of an address, or of all, or closes them. Called twice: they are.
    pub async fn set_up(&self, only: Option<IpAddr>, up: bool) -> io::Result<()> {
        let all = self.ports.addresses.iter().copied();
        for address in all.filter(|address| only.is_none_or(|only| only == *address)) {
            let listens = self.listening.lock().contains_key(&address);
            match (up, listens) {
                (true, false) => {
                    let stop = self.open(address).await?;
                    self.listening.lock().insert(address, stop);
                }
                (false, true) => {
                    let stop = self.listening.lock().remove(&address);
                    stop.iter().for_each(CancellationToken::cancel);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn open(&self, address: IpAddr) -> io::Result<CancellationToken> {
        let stop = CancellationToken::new();
        let (core, guests) = (Arc::clone(&self.core), Arc::clone(&self.guests));
        let units = Units::new(Arc::clone(&core), Arc::clone(&guests), self.portals());
        let units: Arc<dyn target::Storage> = Arc::new(units);
        let iscsi = SocketAddr::new(address, self.ports.iscsi);
        listen(iscsi, &stop, move |stream| {
            target::serve(stream, Arc::clone(&units))
        })
        .await?;
        let nfs = SocketAddr::new(address, self.ports.nfs);
        listen(nfs, &stop, move |stream| {
            shares::serve(stream, Arc::clone(&core), Arc::clone(&guests))
        })
        .await?;
        Ok(stop)
    }

    /// The portals that are told: the array's addresses.
    fn portals(&self) -> Vec<SocketAddr> {
        let port = self.ports.iscsi;
        let addresses = self.core.addresses.iter();
        addresses.map(|ip| SocketAddr::new(*ip, port)).collect()
    }

    /// Ends all sessions; whoever wants may come again.
    pub fn drop_sessions(&self) {
        for (_, _, end) in self.guests.0.lock().iter() {
            end.cancel();
        }
    }

    /// Who uses data.
    pub fn sessions(&self) -> Vec<Session> {
        let guests = self.guests.0.lock();
        guests
            .iter()
            .map(|(_, session, _)| session.clone())
            .collect()
    }
}

/// Answers every connection to a port until it is told to stop.
async fn listen<F>(
    address: SocketAddr,
    stop: &CancellationToken,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = ports::open_again(address).await?;
    let serve = move |stream| {
        let served = serve(stream);
        async move {
            if let Err(error) = served.await {
                tracing::debug!(%error, "A connection for data ended.");
            }
        }
    };
    tokio::spawn(ports::accept(listener, stop.clone(), serve));
    Ok(())
}
