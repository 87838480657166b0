//! The right to change a volume, across processes: a lock on its image.
//!
//! The image is there before the record and goes after it, so its lock covers the whole life of a volume. The lock
//! belongs to the opened file: it goes when the process dies. A loop device would keep it alive, so devices are given
//! a descriptor of their own ([`Image::reopen`]).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use stowage_host::PathError;
use stowage_host::loopdev::BackingFile;

use super::{Area, FILE_MODE, StateError, Store};
use crate::id::Key;

/// How often a file is opened again that was removed between open and lock.
const ATTEMPTS: usize = 16;

/// The mode of an image that is being made or removed. Root can use it all the same.
const UNFINISHED_MODE: u32 = 0o200;

/// Whether an image is all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is being made or removed; without a record it is nobody's.
    Unfinished,
    /// It holds, or held, somebody's data.
    Finished,
}

/// A locked image.
#[derive(Debug)]
pub(crate) struct Image {
    key: Key,
    path: PathBuf,
    file: File,
}

impl Store {
    /// Locks an image; none if there is none. Never waits.
    pub(crate) fn lock(&self, area: Area, key: &Key) -> Result<Option<Image>, StateError> {
        self.open_locked(area, key, false, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks an image so that others may do the same, but nobody can change it.
    pub(crate) fn lock_shared(&self, area: Area, key: &Key) -> Result<Option<Image>, StateError> {
        self.open_locked(area, key, false, FlockOperation::NonBlockingLockShared)
    }

    /// Locks an image, which is made, empty, if there is none.
    pub(crate) fn lock_or_make(&self, area: Area, key: &Key) -> Result<Image, StateError> {
        let locked = self.open_locked(area, key, true, FlockOperation::NonBlockingLockExclusive)?;
        locked.ok_or_else(|| StateError::Locked {
            image: self.image_path(area, key),
        })
    }

    fn open_locked(
        &self,
        area: Area,
        key: &Key,
        make: bool,
        how: FlockOperation,
    ) -> Result<Option<Image>, StateError> {
        let path = self.image_path(area, key);
        for _ in 0..ATTEMPTS {
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(make)
                .truncate(false)
                .mode(UNFINISHED_MODE)
                .open(&path);
            let file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(PathError::at("open", &path)(error).into()),
            };
            match flock(&file, how) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(StateError::Locked { image: path }),
                Err(errno) => return Err(PathError::at("lock", &path)(errno).into()),
            }
            if is_at(&file, &path).map_err(PathError::at("examine", &path))? {
                return Ok(Some(Image {
                    key: key.clone(),
                    path,
                    file,
                }));
            }
        }
        Err(StateError::Locked { image: path })
    }
}

/// Whether the path still leads to the opened file: its owner may have removed it before we got the lock.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Image {
    /// Gives the lock back by name. Closing the file is not enough: a tool that is being started at this moment has a
    /// copy of the descriptor until it becomes itself, and would hold the lock that long.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Image {
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Its identity for loop devices.
    pub(crate) fn backing(&self) -> Result<BackingFile, StateError> {
        Ok(BackingFile::of(&self.file).map_err(PathError::at("examine", &self.path))?)
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> Result<u64, StateError> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(PathError::at("examine", &self.path))?;
        Ok(metadata.len())
    }

    /// Makes it this long, for good. It never becomes shorter: what is in it may need every byte.
    ///
    /// Called twice: it is that long already.
    pub(crate) fn lengthen(&self, bytes: u64) -> Result<(), StateError> {
        if self.bytes()? < bytes {
            let longer = self.file.set_len(bytes);
            longer.map_err(PathError::at("resize", &self.path))?;
        }
        Ok(self
            .file
            .sync_all()
            .map_err(PathError::at("sync", &self.path))?)
    }

    /// Makes it as long as it was before, for good. The caller knows that nothing is in what goes.
    pub(super) fn shorten(&self, bytes: u64) -> Result<(), StateError> {
        let shorter = self.file.set_len(bytes).and_then(|()| self.file.sync_all());
        Ok(shorter.map_err(PathError::at("resize", &self.path))?)
    }

    /// Takes away what a process that died wrote into an image that never was anybody's.
    ///
    /// Called twice: it is empty.
    pub(crate) fn start_over(&self) -> Result<(), StateError> {
        if self.stage()? == Stage::Unfinished && self.bytes()? > 0 {
            self.shorten(0)?;
        }
        Ok(())
    }

    /// The same file without the lock, for a loop device or a copy that outlives this.
    pub(crate) fn reopen(&self) -> Result<File, StateError> {
        let opened = OpenOptions::new().read(true).write(true).open(&self.path);
        Ok(opened.map_err(PathError::at("open", &self.path))?)
    }

    /// Whether it is all there.
    pub(crate) fn stage(&self) -> Result<Stage, StateError> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(PathError::at("examine", &self.path))?;
        Ok(if metadata.mode() & 0o777 == UNFINISHED_MODE {
            Stage::Unfinished
        } else {
            Stage::Finished
        })
    }

    pub(super) fn mark(&self, stage: Stage) -> Result<(), StateError> {
        if self.stage()? == stage {
            return Ok(());
        }
        let mode = match stage {
            Stage::Unfinished => UNFINISHED_MODE,
            Stage::Finished => FILE_MODE,
        };
        let marked = self.file.set_permissions(fs::Permissions::from_mode(mode));
        Ok(marked.map_err(PathError::at("mark", &self.path))?)
    }

    /// Removes it.
    pub(crate) fn discard(self) -> Result<(), StateError> {
        super::remove_if_there(&self.path).map(|_| ())
    }
}
