//! How many bytes a directory or a filesystem holds, and how many it may.
//!
//! The cluster writes limits; the frontends of all nodes count bytes. They share the data directory, so a ledger is a
//! small file, changed under `flock`: exact to the byte however many processes write, and two system calls instead of a
//! request. Charges take the ledger of the filesystem first and then those of directories from the outermost to the
//! innermost, so no two charges wait for each other.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};

use super::state::Millis;

/// Bytes are counted in blocks of this size.
pub const BLOCK: u64 = 4096;

/// Bytes that a file of this size is charged with.
pub fn charge_of(size: u64) -> u64 {
    size.div_ceil(BLOCK) * BLOCK
}

/// What a ledger says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// No more than these bytes.
    pub hard: u64,
    /// More than these bytes are worth an alert.
    pub soft: u64,
    /// How long `soft` may be exceeded before it is as good as `hard`; 0 is for ever.
    pub grace: Millis,
    /// When the limits take effect.
    pub active_at: Millis,
    /// Bytes that are held.
    pub used: u64,
    /// Since when `used` is more than `soft`; 0 if it is not.
    pub over_since: Millis,
}

impl Record {
    /// Whether `more` bytes fit.
    pub fn allows(&self, more: u64, now: Millis) -> bool {
        let after = self.used.saturating_add(more);
        let graceless =
            self.grace > 0 && self.over_since > 0 && now >= self.over_since + self.grace;
        now < self.active_at || (after <= self.hard && !(graceless && after > self.soft))
    }

    /// The same with `delta` bytes more.
    fn plus(mut self, delta: i64, now: Millis) -> Self {
        self.used = self.used.saturating_add_signed(delta);
        self.over_since = match (self.used > self.soft, self.over_since) {
            (false, _) => 0,
            (true, 0) => now,
            (true, since) => since,
        };
        self
    }

    fn fields(&mut self) -> [&mut u64; 6] {
        [
            &mut self.hard,
            &mut self.soft,
            &mut self.grace,
            &mut self.active_at,
            &mut self.used,
            &mut self.over_since,
        ]
    }

    fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; 48];
        file.read_exact_at(&mut bytes, 0)?;
        let mut record = Self::default();
        for (field, chunk) in record.fields().into_iter().zip(bytes.chunks_exact(8)) {
            *field = u64::from_le_bytes(chunk.try_into().expect("chunks of 8"));
        }
        Ok(record)
    }

    fn write(mut self, file: &File) -> io::Result<()> {
        let bytes: Vec<u8> = self
            .fields()
            .iter()
            .flat_map(|field| field.to_le_bytes())
            .collect();
        file.write_all_at(&bytes, 0)
    }
}

/// What every operation on a filesystem looks at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Grows when a directory gets or loses a quota.
    pub generation: u64,
    /// Whether operations hang.
    pub hung: bool,
}

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

/// What the file of [`Ledgers::open_epoch`] says now.
pub fn read_epoch(file: &File) -> io::Result<Epoch> {
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, 0)?;
    let (generation, hung) = bytes.split_at(8);
    Ok(Epoch {
        generation: u64::from_le_bytes(generation.try_into().expect("8 bytes")),
        hung: hung[0] != 0,
    })
}

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

struct Locked<'a>(MutexGuard<'a, File>);

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
    fn open(path: &Path, inode: Option<u64>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self {
            file: Mutex::new(file),
            inode,
        })
    }

    fn lock(&self) -> io::Result<Locked<'_>> {
        let guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests;
