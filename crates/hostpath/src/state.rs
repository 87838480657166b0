//! The state directory: what exists, on disk and nowhere else.
//!
//! ```text
//! volumes/<key>.img    the volume itself, as large as the volume, sparse
//! volumes/<key>.json   its record; with it the volume exists, without it it does not
//! snapshots/           the same for snapshots
//! groups/<key>.json    snapshots that were taken together; the image beside it is empty and only there to be locked
//! inline/<key>.img     inline volumes of pods; they have no record, the kubelet knows them
//! frozen/<key>         written before a filesystem is frozen, removed after it is thawed
//! scratch/<key>/       where a filesystem is mounted for a moment
//! nodes/<node>         nodes that use this directory
//! staged/<key>.<node>  nodes that have a raw block volume, if several of one machine share it
//! ```
//!
//! A key is the hash of a name, so everything is found by one look, however much there is, and whoever else changes
//! the directory. Records are replaced as a whole and synced ([`atomic_write`]). Whoever changes something holds a
//! lock on the image ([`lock`]); readers need none. Order of a creation: image, then record. Order of a deletion:
//! record, then image. So a crash leaves an image without record at worst; such an image is marked as unfinished by
//! its mode, and [`repair`] removes it. An image without record and without that mark is somebody's data whose record
//! was lost: it is reported and left alone. How several snapshots come into being at once is described in [`group`].
//!
//! All functions block.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_host::copy::atomic_write;
use stowage_host::filesystem::FsKind;
use stowage_host::{PathError, create_directories};

use crate::id::{Key, NodeId};

mod group;
mod growth;
mod list;
mod lock;
mod record;
mod repair;
mod staged;

pub(crate) use group::{GroupRecord, GroupStage};
pub(crate) use lock::{Image, Stage};
pub(crate) use record::{
    Attachment, Record, SnapshotRecord, Source, VolumeRecord, from_unix_ms, now_unix_ms,
};
pub(crate) use repair::{audit, repair};

/// Nobody but the driver has any business here: the images are the pods' data.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Why the state is not available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error("another process is working on `{}`: retry when it has ended", image.display())]
    Locked { image: PathBuf },
    #[error("the state file `{}` is damaged ({reason}): restore it, or remove it and the `.img` file beside it to discard the data", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("`{}`, which holds the data, is missing or truncated: restore it, or delete the volume", path.display())]
    ImageLost { path: PathBuf },
    #[error("`{}` held an {kind} when it was last used, and holds none any more: restore it, or delete the volume", path.display())]
    FilesystemLost { path: PathBuf, kind: FsKind },
    #[error("`{}` holds data, but the state file beside it is missing: restore the state file, or remove the data", path.display())]
    RecordLost { path: PathBuf },
    #[error(transparent)]
    Io(#[from] PathError),
}

/// A part of the state directory that holds images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Volumes,
    Snapshots,
    Groups,
    Inline,
}

impl Area {
    const ALL: [Self; 4] = [Self::Volumes, Self::Snapshots, Self::Groups, Self::Inline];

    fn directory(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Snapshots => "snapshots",
            Self::Groups => "groups",
            Self::Inline => "inline",
        }
    }
}

const FROZEN: &str = "frozen";
const SCRATCH: &str = "scratch";
const NODES: &str = "nodes";
const STAGED: &str = "staged";

/// The state directory.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: Arc<Path>,
}

impl Store {
    /// Opens the directory, which is made if it is missing, and makes sure that it can be written.
    ///
    /// Called twice: finds what the first call made.
    pub(crate) fn open(root: &Path, node: &NodeId) -> Result<Self, StateError> {
        let areas = Area::ALL.map(Area::directory);
        for name in areas.into_iter().chain([FROZEN, SCRATCH, NODES, STAGED]) {
            make_directory(&root.join(name))?;
        }
        let store = Self { root: root.into() };
        let path = store.root.join(NODES).join(node.as_str());
        atomic_write(&path, b"", FILE_MODE).map_err(PathError::at("write", &path))?;
        Ok(store)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this node uses the directory.
    pub(crate) fn knows_node(&self, node: &NodeId) -> bool {
        self.root.join(NODES).join(node.as_str()).exists()
    }

    pub(crate) fn image_path(&self, area: Area, key: &Key) -> PathBuf {
        self.root.join(area.directory()).join(format!("{key}.img"))
    }

    fn record_path(&self, area: Area, key: &Key) -> PathBuf {
        self.root.join(area.directory()).join(format!("{key}.json"))
    }

    /// What is known of a volume or snapshot; none if it does not exist.
    pub(crate) fn read<R: Record>(&self, key: &Key) -> Result<Option<R>, StateError> {
        let path = self.record_path(R::SHELF, key);
        match fs::read(&path) {
            Ok(content) => record::parse(&content, key)
                .map(Some)
                .map_err(|reason| StateError::Damaged { path, reason }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PathError::at("read", &path)(error).into()),
        }
    }

    /// Makes a volume or snapshot exist, or changes it. The caller holds its image.
    ///
    /// Called twice: the second record replaces the first.
    pub(crate) fn write<R: Record>(&self, image: &Image, record: &R) -> Result<(), StateError> {
        let path = self.record_path(R::SHELF, image.key());
        atomic_write(&path, &record::encode(record), FILE_MODE)
            .map_err(PathError::at("write", &path))?;
        image.mark(Stage::Finished)
    }

    /// Removes a volume or snapshot: first the record, for good, then the data.
    ///
    /// Called twice: the second call has nothing to remove.
    pub(crate) fn remove(&self, area: Area, image: Image) -> Result<(), StateError> {
        let path = self.record_path(area, image.key());
        image.mark(Stage::Unfinished)?;
        if remove_if_there(&path)? {
            sync_directory(&path)?;
        }
        image.discard()
    }

    /// Whether the image has all the bytes it should have.
    pub(crate) fn is_whole(&self, area: Area, key: &Key, bytes: u64) -> bool {
        fs::metadata(self.image_path(area, key)).is_ok_and(|image| image.len() >= bytes)
    }

    /// Notes that a filesystem is about to be frozen: if this process dies, the next one thaws it.
    ///
    /// Called twice: it stays noted.
    pub(crate) fn note_freeze(&self, key: &Key) -> Result<(), StateError> {
        let path = self.frozen_path(key);
        atomic_write(&path, b"", FILE_MODE).map_err(PathError::at("write", &path))?;
        Ok(())
    }

    /// Notes that a filesystem has been thawed.
    pub(crate) fn note_thaw(&self, key: &Key) -> Result<(), StateError> {
        remove_if_there(&self.frozen_path(key)).map(|_| ())
    }

    fn frozen_path(&self, key: &Key) -> PathBuf {
        self.root.join(FROZEN).join(key.as_str())
    }

    /// An empty directory to mount this image's filesystem on. The caller holds the image.
    pub(crate) fn scratch(&self, key: &Key) -> Result<PathBuf, StateError> {
        let path = self.root.join(SCRATCH).join(key.as_str());
        make_directory(&path)?;
        Ok(path)
    }
}

fn make_directory(path: &Path) -> Result<(), StateError> {
    Ok(create_directories(path, DIRECTORY_MODE)?)
}

fn remove_if_there(path: &Path) -> Result<bool, StateError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(PathError::at("remove", path)(error).into()),
    }
}

/// Makes what happened to the names beside `path` survive a power failure.
fn sync_directory(path: &Path) -> Result<(), StateError> {
    let directory = path.parent().unwrap_or(path);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(synced.map_err(PathError::at("sync", directory))?)
}

#[cfg(test)]
mod tests;
