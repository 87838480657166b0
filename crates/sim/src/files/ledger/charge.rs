//! Charges to several ledgers at once: to all of them, or to none.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FlockOperation, flock};

use super::record::Record;
use crate::moment::Millis;

/// One open ledger.
#[derive(Debug)]
pub struct Ledger {
    /// `flock` knows open files, not threads: the mutex keeps our own threads apart.
    file: Mutex<File>,
    inode: Option<u64>,
}

/// Why bytes do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdrawn {
    /// A directory has as much as its quota allows.
    Quota,
    /// The filesystem is full.
    Filesystem,
}

pub(super) struct Locked<'a>(MutexGuard<'a, File>);

impl std::ops::Deref for Locked<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // An unlock can only fail on a closed descriptor.
        let _ = flock(&*self.0, FlockOperation::Unlock);
    }
}

impl Ledger {
    pub(super) fn open(path: &Path, inode: Option<u64>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self {
            file: Mutex::new(file),
            inode,
        })
    }

    pub(super) fn lock(&self) -> io::Result<Locked<'_>> {
        let guard = self.file.lock();
        flock(&*guard, FlockOperation::LockExclusive)?;
        Ok(Locked(guard))
    }
}

/// Ledgers that nobody else can change: while it is held, sizes of files in their directories do not change either.
pub struct Standstill<'a> {
    locked: Vec<(Locked<'a>, Option<u64>)>,
}

impl std::fmt::Debug for Standstill<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Standstill of {} ledgers", self.locked.len())
    }
}

impl<'a> Standstill<'a> {
    /// Takes ledgers, the filesystem's first, then from the outermost directory to the innermost.
    pub fn of(ledgers: &'a [Arc<Ledger>]) -> io::Result<Self> {
        let mut locked = Vec::with_capacity(ledgers.len());
        for ledger in ledgers {
            let guard = ledger.lock()?;
            // Removed since it was opened.
            if guard.metadata()?.nlink() > 0 {
                locked.push((guard, ledger.inode));
            }
        }
        Ok(Self { locked })
    }

    /// Adds bytes to all ledgers, or to none.
    pub fn add(&self, delta: i64, now: Millis) -> io::Result<Result<(), Overdrawn>> {
        let mut records = Vec::with_capacity(self.locked.len());
        for (file, inode) in &self.locked {
            let record = Record::read(file)?;
            if delta > 0 && !record.allows(delta.unsigned_abs(), now) {
                return Ok(Err(match inode {
                    Some(_) => Overdrawn::Quota,
                    None => Overdrawn::Filesystem,
                }));
            }
            records.push(record.plus(delta, now));
        }
        for ((file, _), record) in self.locked.iter().zip(records) {
            record.write(file)?;
        }
        Ok(Ok(()))
    }
}
