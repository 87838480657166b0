//! The array's volumes as units of a target.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Guests;
use crate::iscsi::target::{Guest, Storage, Unit};
use crate::vpsa::backing::GB;
use crate::vpsa::control::server::Session;
use crate::vpsa::core::Core;
use crate::vpsa::state::{DataType, servers};

/// The array's volumes as units of a target.
pub struct Units {
    core: Arc<Core>,
    guests: Arc<Guests>,
    portals: Vec<SocketAddr>,
    /// Files that were opened before.
    open: Mutex<HashMap<String, Arc<File>>>,
}

impl Units {
    pub fn new(core: Arc<Core>, guests: Arc<Guests>, portals: Vec<SocketAddr>) -> Self {
        Self {
            core,
            guests,
            portals,
            open: Mutex::default(),
        }
    }

    /// The file of a volume, opened once for all who use it.
    fn file(&self, volume: &str) -> io::Result<Arc<File>> {
        let mut open = self.open.lock();
        if let Some(file) = open.get(volume) {
            return Ok(Arc::clone(file));
        }
        let path = self.core.backing.disk(volume);
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
        open.insert(volume.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Volumes that are gone are let go of, so that their space is.
    fn let_go(&self) {
        let open: Vec<String> = self.open.lock().keys().cloned().collect();
        let gone = self.core.read(|state, _| {
            let gone = open
                .into_iter()
                .filter(|id| !state.volumes.contains_key(id));
            gone.collect::<Vec<_>>()
        });
        let mut open = self.open.lock();
        for id in gone {
            open.remove(&id);
        }
    }
}

impl Storage for Units {
    fn target_name(&self) -> String {
        self.core.read(|state, _| state.target())
    }

    fn portals(&self) -> Vec<SocketAddr> {
        self.portals.clone()
    }

    fn admit(&self, initiator: &str, address: IpAddr) -> Option<Guest> {
        let guest = self.core.read(|state, _| {
            let server = servers::of_initiator(state, initiator, address)?;
            Some(Guest {
                name: server.id.clone(),
                user: server.chap_user.clone(),
                secret: server.chap_secret.clone(),
            })
        })?;
        // Who has no disks here has no business here.
        (!self.units(&guest.name).is_empty()).then_some(guest)
    }

    fn units(&self, guest: &str) -> Vec<u64> {
        self.let_go();
        self.core.read(|state, now| {
            let attachments = state.attachments_to(guest);
            let ready = attachments.filter(|attachment| attachment.ready_at <= now);
            let disks = ready.filter(|attachment| {
                let volume = state.volumes.get(&attachment.volume);
                volume.is_some_and(|volume| {
                    volume.data_type == DataType::Block && volume.is_usable(now)
                })
            });
            let mut luns: Vec<u64> = disks.map(|attachment| attachment.lun).collect();
            luns.sort_unstable();
            luns
        })
    }

    fn unit(&self, guest: &str, lun: u64) -> Option<Unit> {
        let (id, size, read_only) = self.core.read(|state, now| {
            let mut attachments = state.attachments_to(guest);
            let attachment = attachments.find(|attachment| {
                let volume = state.volumes.get(&attachment.volume);
                let is_disk = volume.is_some_and(|volume| volume.data_type == DataType::Block);
                is_disk && attachment.lun == lun && attachment.ready_at <= now
            })?;
            let volume = state.volumes.get(&attachment.volume)?;
            let usable = volume.is_usable(now);
            let size = volume.capacity_at(now) * GB;
            usable.then(|| (volume.id.clone(), size, attachment.read_only))
        })?;
        let file = self.file(&id).ok()?;
        // What was decided may not have been carried out yet.
        let size = size.min(file.metadata().ok()?.len());
        let array = self.core.read(|state, _| state.vpsa().id.clone());
        Some(Unit {
            serial: format!("{array}/{id}"),
            file,
            size,
            read_only,
        })
    }

    fn enter(
        &self,
        guest: &str,
        initiator: &str,
        address: IpAddr,
        end: CancellationToken,
    ) -> Box<dyn Send> {
        let session = Session {
            protocol: "iscsi".to_owned(),
            server: guest.to_owned(),
            address,
            what: initiator.to_owned(),
        };
        Box::new(self.guests.enter(session, end))
    }
}
