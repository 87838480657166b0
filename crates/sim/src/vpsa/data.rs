//! The ports for data: disks over iSCSI, shares for those who ask as the stand-in for `mount.nfs` does.
//!
//! Both know who asks by the address they come from, and disks also by the name and the secret of the initiator.

pub mod shares;
mod units;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use self::units::Units;
use super::Options;
use super::control::server::Session;
use super::core::Core;
use crate::endpoints::EndpointError;
use crate::iscsi::target;

/// The ports for data.
#[derive(Debug)]
pub struct DataPlane {
    core: Arc<Core>,
    guests: Arc<Guests>,
    ports: Ports,
    /// Ends everything that listens; none while nothing does.
    listening: Mutex<Option<CancellationToken>>,
}

#[derive(Clone, Debug)]
struct Ports {
    iscsi: Vec<SocketAddr>,
    nfs: Vec<SocketAddr>,
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
        let listen = |port: u16| {
            let any: IpAddr = if has_ipv6 {
                Ipv6Addr::UNSPECIFIED.into()
            } else {
                Ipv4Addr::UNSPECIFIED.into()
            };
            let told = options.address.iter().copied();
            let addresses: Vec<IpAddr> = if options.any_address {
                vec![any]
            } else {
                told.collect()
            };
            let ports = addresses
                .into_iter()
                .map(move |ip| SocketAddr::new(ip, port));
            ports.collect::<Vec<_>>()
        };
        let (iscsi, nfs) = if options.no_data {
            (Vec::new(), Vec::new())
        } else {
            (listen(options.iscsi_port), listen(options.nfs_port))
        };
        let plane = Self {
            core,
            guests: Arc::default(),
            ports: Ports { iscsi, nfs },
            listening: Mutex::default(),
        };
        let address = plane.ports.iscsi.first().copied();
        plane
            .set_up(true)
            .await
            .map_err(|source| EndpointError::Unavailable {
                address: address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
                source,
            })?;
        Ok(plane)
    }

    /// Closes the ports, and every connection to them.
    pub fn stop(&self) {
        if let Some(listening) = self.listening.lock().take() {
            listening.cancel();
        }
        self.drop_sessions();
    }

    /// Opens the ports, or closes them. Called twice: they are.
    pub async fn set_up(&self, up: bool) -> io::Result<()> {
        if !up {
            self.stop();
            return Ok(());
        }
        if self.listening.lock().is_some() {
            return Ok(());
        }
        let stop = CancellationToken::new();
        let portals = self.portals();
        let units: Arc<dyn target::Storage> = Arc::new(Units::new(
            Arc::clone(&self.core),
            Arc::clone(&self.guests),
            portals,
        ));
        for address in &self.ports.iscsi {
            let units = Arc::clone(&units);
            listen(*address, &stop, move |stream| {
                target::serve(stream, Arc::clone(&units))
            })
            .await?;
        }
        for address in &self.ports.nfs {
            let (core, guests) = (Arc::clone(&self.core), Arc::clone(&self.guests));
            listen(*address, &stop, move |stream| {
                shares::serve(stream, Arc::clone(&core), Arc::clone(&guests))
            })
            .await?;
        }
        *self.listening.lock() = Some(stop);
        Ok(())
    }

    /// The portals that are told: the array's addresses.
    fn portals(&self) -> Vec<SocketAddr> {
        let port = self.ports.iscsi.first().map_or(0, SocketAddr::port);
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
    let listener = bind(address).await?;
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let served = serve(stream);
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    served = served => if let Err(error) = served {
                        tracing::debug!(%error, %peer, "A connection for data ended.");
                    },
                }
            });
        }
    });
    Ok(())
}

/// The port that was just closed may be taken for a moment.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let mut patience = 100;
    loop {
        match TcpListener::bind(address).await {
            Err(_) if patience > 0 => {
                patience -= 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            result => return result,
        }
    }
}
