//! How many bytes a directory or a filesystem holds, and how many it may.
//!
//! The cluster writes limits; the frontends of all nodes count bytes. They share the data directory, so a ledger is a
//! small file, changed under `flock`: exact to the byte however many processes write, and two system calls instead of a
//! request. Charges take the ledger of the filesystem first and then those of directories from the outermost to the
//! innermost, so no two charges wait for each other.

mod charge;
mod record;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

pub use self::charge::{Ledger, Overdrawn, Standstill};
pub use self::record::{BLOCK, Epoch, Record, charge_of, read_epoch};

/// The ledgers of one filesystem. Cheap to make.
#[derive(Clone, Debug)]
pub struct Ledgers {
    directory: PathBuf,
}

impl Ledgers {
    /// Those in a directory.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the ledger of a filesystem, or changes its limit.
    pub fn set_total(&self, bytes: u64) -> io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let epoch = self.directory.join("epoch");
        if !epoch.exists() {
            std::fs::write(epoch, [0; 16])?;
        }
        self.set_at(&self.total_path(), |record| Record {
            hard: bytes,
            soft: u64::MAX,
            ..record
        })
    }

    /// Gives a directory limits. `used` counts what it holds already, and is asked only if it had none.
    pub fn set(
        &self,
        inode: u64,
        limits: Record,
        used: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        let path = self.quota_path(inode);
        let fresh = !path.exists();
        // Nobody may write between the count and the moment from which writers see the ledger.
        let total = self.open_total()?;
        let _standstill = total.lock()?;
        let counted = if fresh { Some(used()?) } else { None };
        self.set_at(&path, |record| Record {
            used: counted.unwrap_or(record.used),
            over_since: record.over_since,
            ..limits
        })?;
        if fresh {
            self.change_epoch(|epoch| epoch.generation += 1)?;
        }
        Ok(())
    }

    /// A directory has no limits any more. Called twice: there is nothing left to do.
    pub fn remove(&self, inode: u64) -> io::Result<()> {
        match std::fs::remove_file(self.quota_path(inode)) {
            Ok(()) => self.change_epoch(|epoch| epoch.generation += 1),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the ledger of a directory says; none if it has none.
    pub fn read(&self, inode: u64) -> io::Result<Option<Record>> {
        match File::open(self.quota_path(inode)) {
            Ok(file) => Record::read(&file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the ledger of the filesystem says.
    pub fn read_total(&self) -> io::Result<Record> {
        Record::read(&File::open(self.total_path())?)
    }

    /// The directories that have ledgers.
    pub fn inodes(&self) -> io::Result<Vec<u64>> {
        let entries = std::fs::read_dir(&self.directory)?;
        Ok(entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect())
    }

    /// Lets operations on the filesystem hang, or go on.
    pub fn set_hung(&self, hung: bool) -> io::Result<()> {
        self.change_epoch(|epoch| epoch.hung = hung)
    }

    /// The file behind [`read_epoch`].
    pub fn open_epoch(&self) -> io::Result<File> {
        File::open(self.directory.join("epoch"))
    }

    /// The ledger of the filesystem, for charges.
    pub fn open_total(&self) -> io::Result<Ledger> {
        Ledger::open(&self.total_path(), None)
    }

    /// The ledger of a directory, for charges.
    pub fn open(&self, inode: u64) -> io::Result<Ledger> {
        Ledger::open(&self.quota_path(inode), Some(inode))
    }

    fn total_path(&self) -> PathBuf {
        self.directory.join("total")
    }

    fn quota_path(&self, inode: u64) -> PathBuf {
        self.directory.join(inode.to_string())
    }

    fn set_at(&self, path: &Path, change: impl FnOnce(Record) -> Record) -> io::Result<()> {
        if !path.exists() {
            // Complete from the moment it can be seen.
            let fresh = self.directory.join("fresh");
            let file = File::create(&fresh)?;
            change(Record::default()).write(&file)?;
            file.sync_all()?;
            return std::fs::rename(fresh, path);
        }
        let ledger = Ledger::open(path, None)?;
        let guard = ledger.lock()?;
        change(Record::read(&guard)?).write(&guard)
    }

    fn change_epoch(&self, change: impl FnOnce(&mut Epoch)) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.directory.join("epoch"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        let mut epoch = read_epoch(&file)?;
        change(&mut epoch);
        let mut bytes = epoch.generation.to_le_bytes().to_vec();
        bytes.extend(u64::from(epoch.hung).to_le_bytes());
        file.write_all_at(&bytes, 0)
    }
}

#[cfg(test)]
mod tests;
