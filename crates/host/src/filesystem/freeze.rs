//! Stopping all writes to a filesystem for the moment of a copy. All functions block.
//!
//! A frozen filesystem stops every process that writes to it, so it must be thawed whatever happens: [`Frozen`] thaws
//! when it is dropped. Against `kill -9` only a record helps that is written before the freeze and read at the next
//! start, which then calls [`thaw`]; keeping it is the driver's business.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::FsError;
use crate::mountinfo::Reader;
use crate::{Outcome, ioctl};

/// A filesystem that is frozen until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    root: Option<File>,
    point: PathBuf,
}

/// Writes everything out and stops all further writes to the filesystem mounted at `point`. Blocks.
///
/// Called twice: the second call fails with `EBUSY`, for who froze it counts on it.
pub fn freeze(point: &Path) -> Result<Frozen, FsError> {
    let root = open_mounted(point)?;
    ioctl::freeze(&root).map_err(|source| refusal("freeze", point, source))?;
    Ok(Frozen {
        root: Some(root),
        point: point.to_owned(),
    })
}

/// Lets writes to the filesystem mounted at `point` go on. Blocks.
///
/// Called twice: the second call finds it thawed.
pub fn thaw(point: &Path) -> Result<Outcome, FsError> {
    thaw_root(&open_mounted(point)?, point)
}

/// Writes everything out that was written to the filesystem mounted at `point`. Blocks.
///
/// Called twice: there is less to write.
pub fn sync(point: &Path) -> Result<(), FsError> {
    let root = open_mounted(point)?;
    rustix::fs::syncfs(&root).map_err(|errno| refusal("sync", point, errno.into()))
}

impl Frozen {
    /// Lets writes go on, and returns whether that failed.
    pub fn thaw(mut self) -> Result<(), FsError> {
        match self.root.take() {
            Some(root) => thaw_root(&root, &self.point).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let Some(root) = self.root.take() else { return };
        if let Err(error) = thaw_root(&root, &self.point) {
            tracing::error!(point = %self.point.display(), %error, "A filesystem stays frozen: thaw it with `fsfreeze -u`.");
        }
    }
}

fn thaw_root(root: &File, point: &Path) -> Result<Outcome, FsError> {
    match ioctl::thaw(root) {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Ok(Outcome::Already),
        Err(source) => Err(refusal("thaw", point, source)),
    }
}

/// Opens the root of a mount, and makes sure that it is one: where nothing is mounted, the same directory belongs to
/// the filesystem above, which may be the machine's own root.
fn open_mounted(point: &Path) -> Result<File, FsError> {
    let root = File::open(point).map_err(|source| refusal("look up", point, source))?;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", root.as_raw_fd()));
    let info = info.map_err(|source| refusal("look up", point, source))?;
    let opened: Option<u64> = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let real = point
        .canonicalize()
        .map_err(|source| refusal("look up", point, source))?;
    let table = Reader::default().table()?;
    match table.at(&real) {
        Some(mount) if Some(mount.id()) == opened => Ok(root),
        _ => Err(FsError::NotMounted {
            point: point.to_owned(),
        }),
    }
}

fn refusal(doing: &'static str, point: &Path, source: io::Error) -> FsError {
    FsError::Refusal {
        doing,
        point: point.to_owned(),
        source,
    }
}
