//! Whom bytes are charged to.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ledger::{Ledger, Ledgers, Overdrawn, Standstill, read_epoch};
use super::nodes::{Nodes, View};
use crate::moment::now;

/// The ledgers of a mounted filesystem.
#[derive(Debug)]
pub struct Accounts {
    ledgers: Ledgers,
    total: Arc<Ledger>,
    epoch: File,
    quotas: Mutex<Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    generation: Option<u64>,
    quotas: Arc<HashMap<u64, Arc<Ledger>>>,
}

impl Accounts {
    /// Those of a filesystem.
    pub fn open(ledgers: Ledgers) -> io::Result<Self> {
        Ok(Self {
            total: Arc::new(ledgers.open_total()?),
            epoch: ledgers.open_epoch()?,
            ledgers,
            quotas: Mutex::default(),
        })
    }

    /// Whether operations hang.
    pub fn is_hung(&self) -> bool {
        read_epoch(&self.epoch).is_ok_and(|epoch| epoch.hung)
    }

    /// Bytes that the filesystem may hold and holds.
    pub fn total(&self) -> io::Result<(u64, u64)> {
        let record = self.ledgers.read_total()?;
        Ok((record.hard, record.used))
    }

    /// The directories with quotas that a directory is in, itself included, from the innermost out.
    pub fn domain(&self, nodes: &Nodes, directory: u64) -> io::Result<Vec<u64>> {
        let quotas = self.known()?.quotas;
        Ok(owners(&quotas, nodes, directory)
            .map(|(inode, _)| inode)
            .collect())
    }

    /// A directory is gone, and its quota with it.
    pub fn forget(&self, inode: u64) -> io::Result<()> {
        if self.known()?.quotas.contains_key(&inode) {
            self.ledgers.remove(inode)?;
        }
        Ok(())
    }

    /// Does something that changes how many bytes are in a directory, while nobody else does.
    ///
    /// `work` gets a function that charges bytes, which it calls before it takes them or after it freed them.
    pub fn charge<T>(
        &self,
        nodes: &Nodes,
        directory: u64,
        work: impl FnOnce(&dyn Fn(i64) -> io::Result<()>) -> io::Result<T>,
    ) -> io::Result<T> {
        let view = nodes.get(directory)?.view;
        loop {
            let known = self.known()?;
            let mut charged: Vec<Arc<Ledger>> = owners(&known.quotas, nodes, directory)
                .map(|(_, ledger)| ledger)
                .collect();
            let mut held = Vec::new();
            // What a snapshot holds was never charged to the filesystem, so neither are its changes.
            let payer = if view == View::Live {
                &mut charged
            } else {
                &mut held
            };
            payer.push(Arc::clone(&self.total));
            charged.reverse();
            let _exclusion = Standstill::of(&held)?;
            let standstill = Standstill::of(&charged)?;
            // A directory may have got a quota between the look and the lock.
            if known.generation != Some(read_epoch(&self.epoch)?.generation) {
                continue;
            }
            return work(&|delta| match standstill.add(delta, now())? {
                Ok(()) => Ok(()),
                Err(Overdrawn::Quota) => Err(io::Error::from_raw_os_error(libc::EDQUOT)),
                Err(Overdrawn::Filesystem) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            });
        }
    }

    /// The quotas, read again if there are others by now.
    fn known(&self) -> io::Result<Known> {
        let generation = Some(read_epoch(&self.epoch)?.generation);
        let mut known = self.quotas.lock();
        if known.generation != generation {
            let mut quotas = HashMap::new();
            for inode in self.ledgers.inodes()? {
                match self.ledgers.open(inode) {
                    Ok(ledger) => drop(quotas.insert(inode, Arc::new(ledger))),
                    // Removed meanwhile: the generation has grown again.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            *known = Known {
                generation,
                quotas: Arc::new(quotas),
            };
        }
        Ok(known.clone())
    }
}

fn owners(
    quotas: &HashMap<u64, Arc<Ledger>>,
    nodes: &Nodes,
    directory: u64,
) -> impl Iterator<Item = (u64, Arc<Ledger>)> {
    let line = if quotas.is_empty() {
        Vec::new()
    } else {
        nodes.ancestry(directory)
    };
    line.into_iter()
        .filter_map(|node| Some((node.inode, Arc::clone(quotas.get(&node.inode)?))))
}
