//! Directories as volumes, and the mounts that this process serves.

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use rustix::io::Errno;
use rustix::mount::{self, MountFlags, UnmountFlags};
use stowage_csi::proto::csi::VolumeCapability;
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_host::mountinfo::MountTable;
use tonic::Status;

use crate::files::ledger::Ledgers;
use crate::files::served::Served;
use crate::files::tree::Tree;
use crate::mounting::{mount_served, session};

/// As what mounts show.
const KIND: &str = "fuse";
/// In the directory of a volume: what pods see, how much of it there is, and how much there may be.
const FILES: &str = "files";
const LEDGERS: &str = "ledgers";
const SIZE: &str = "size";

/// Why a volume cannot be used like this.
pub(super) fn refusal(capability: &VolumeCapability) -> Option<String> {
    let is_block = matches!(capability.access_type, Some(AccessType::Block(_)));
    is_block.then(|| "volumes are directories, not block devices".to_owned())
}

pub(super) struct Volumes {
    data: PathBuf,
}

impl Volumes {
    pub(super) fn new(data: PathBuf) -> Self {
        Self { data }
    }

    /// Makes a volume of this size; how large it is, if it is there already.
    pub(super) fn create(&self, id: &str, bytes: u64) -> Result<u64, Status> {
        let place = self.place(id)?;
        if let Some(bytes) = size(&place) {
            return Ok(bytes);
        }
        let made = || {
            fs::create_dir_all(place.join(FILES))?;
            Ledgers::new(place.join(LEDGERS)).set_total(bytes)?;
            // Last, and as a whole: with it the volume is there.
            let size = place.join(SIZE);
            fs::write(size.with_extension("new"), bytes.to_string())?;
            fs::rename(size.with_extension("new"), size)
        };
        made().map_err(|error| failed(id, &error))?;
        Ok(bytes)
    }

    /// Called twice: what is gone stays gone.
    pub(super) fn delete(&self, id: &str) -> Result<(), Status> {
        match fs::remove_dir_all(self.place(id)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(id, &error)),
            _ => Ok(()),
        }
    }

    /// The directory of a volume that is there.
    pub(super) fn find(&self, id: &str) -> Result<PathBuf, Status> {
        let place = self.place(id)?;
        let is_there = size(&place).is_some();
        is_there
            .then_some(place)
            .ok_or_else(|| Status::not_found(format!("there is no volume `{id}`")))
    }

    /// Serves a volume at a directory for as long as this process lives. Called twice: it is served once.
    pub(super) fn mount(&self, id: &str, target: &Path, read_only: bool) -> Result<(), Status> {
        let place = self.find(id)?;
        let mounted = || {
            if is_mounted(target)? {
                return Ok(());
            }
            fs::create_dir_all(target)?;
            let ledgers = Ledgers::new(place.join(LEDGERS));
            let tree = Tree::open(&place.join(FILES), ledgers, None)?;
            let flags = if read_only {
                MountFlags::RDONLY
            } else {
                MountFlags::empty()
            };
            let device = mount_served(id, target, KIND, flags)?;
            let session = session(Served::new(tree), device.into())?;
            // Ends when it is unmounted.
            thread::spawn(move || session.run());
            Ok(())
        };
        mounted().map_err(|error| failed(id, &error))
    }

    /// The directory of a volume. No name leads out of the data directory.
    fn place(&self, id: &str) -> Result<PathBuf, Status> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if !id.chars().all(is_plain) || id.starts_with('.') {
            return Err(Status::invalid_argument(format!(
                "`{id}` is not a valid name of a volume"
            )));
        }
        Ok(self.data.join(id))
    }
}

/// Called twice: what is unmounted stays so.
pub(super) fn unmount(target: &Path) -> Result<(), Status> {
    let unmounted = || {
        loop {
            // One whose process is gone answers nothing else.
            match mount::unmount(target, UnmountFlags::DETACH) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(error) => return Err(error.into()),
            }
        }
        match fs::remove_dir(target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    let text = |error: io::Error| format!("cannot unmount {}: {error}", target.display());
    unmounted().map_err(|error| Status::internal(text(error)))
}

/// How large a volume is, if it is there.
fn size(place: &Path) -> Option<u64> {
    fs::read_to_string(place.join(SIZE)).ok()?.parse().ok()
}

/// A mount of an earlier process is as good as none: it is laid over.
fn is_mounted(target: &Path) -> io::Result<bool> {
    let table = MountTable::parse(fs::read("/proc/self/mountinfo")?).map_err(io::Error::other)?;
    Ok(table.at(target).is_some() && fs::metadata(target).is_ok())
}

fn failed(id: &str, error: &io::Error) -> Status {
    Status::internal(format!("volume `{id}`: {error}"))
}
