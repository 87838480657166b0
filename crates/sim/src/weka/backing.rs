//! Where the files of filesystems and snapshots are.
//!
//! ```text
//! <data>/filesystems/<uid>/root/                        the files of a filesystem
//! <data>/filesystems/<uid>/snapshots/<access point>/    those of its snapshots
//! <data>/filesystems/<uid>/writable/<access point>      marks snapshots that can be written
//! <data>/filesystems/<uid>/ledgers/                     see the module `ledger`
//! ```
//!
//! The inode number of a file is that of the file behind it, moved up: the same for every frontend, after every restart,
//! in `stat` and in the REST API.

use std::collections::{HashMap, VecDeque};
use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::files::ledger::{Ledgers, Standstill, charge_of};
use crate::files::shown_inode;
use crate::files::tree::{SNAPSHOTS, Snapshots, Tree};

/// The inode number that is shown for a file.
pub fn inode_of(metadata: &Metadata) -> u64 {
    shown_inode(metadata.ino())
}

/// The files of all filesystems. Clones share what was learned about inodes.
#[derive(Clone, Debug)]
pub struct Backing {
    filesystems: PathBuf,
    /// Where inodes were last seen: a hint, checked before it is believed.
    seen: Arc<Mutex<HashMap<(String, u64), PathBuf>>>,
}

/// A directory of a filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where its files are.
    pub behind: PathBuf,
    /// Its path on the filesystem, `/.snapshots/...` included.
    pub path: String,
    /// The access point of the snapshot it is in.
    pub access_point: Option<String>,
}

impl Found {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(std::fs::read_dir(&self.behind)?.next().is_none())
    }
}

impl Backing {
    /// The files under a data directory.
    pub fn new(data: &Path) -> Self {
        Self {
            filesystems: data.join("filesystems"),
            seen: Arc::default(),
        }
    }

    /// The root of a filesystem.
    pub fn root(&self, filesystem: &str) -> PathBuf {
        self.filesystems.join(filesystem).join("root")
    }

    /// What `.snapshots` of a filesystem shows.
    pub fn snapshots(&self, filesystem: &str) -> PathBuf {
        self.filesystems.join(filesystem).join("snapshots")
    }

    /// Where the snapshots of a filesystem are, and what marks those that can be written.
    pub fn snapshot_places(&self, filesystem: &str) -> (PathBuf, PathBuf) {
        (self.snapshots(filesystem), self.marks(filesystem))
    }

    /// The ledgers of a filesystem.
    pub fn ledgers(&self, filesystem: &str) -> Ledgers {
        Ledgers::new(self.filesystems.join(filesystem).join("ledgers"))
    }

    /// Makes the places of a filesystem. Called twice: they stay.
    pub fn create(&self, filesystem: &str, total: u64) -> io::Result<()> {
        std::fs::create_dir_all(self.root(filesystem))?;
        std::fs::create_dir_all(self.snapshots(filesystem))?;
        self.ledgers(filesystem).set_total(total)
    }

    /// Removes a filesystem's files. Called twice: they are gone.
    pub fn remove(&self, filesystem: &str) -> io::Result<()> {
        remove_tree(&self.filesystems.join(filesystem))
    }

    /// Copies a filesystem, or one of its snapshots, to a new snapshot; sizes stand still meanwhile.
    pub fn copy_snapshot(
        &self,
        filesystem: &str,
        source: Option<&str>,
        access_point: &str,
        writable: bool,
    ) -> io::Result<()> {
        let snapshots = self.snapshots(filesystem);
        let from = source.map_or_else(|| self.root(filesystem), |source| snapshots.join(source));
        // Several may be taken at once.
        let unfinished = format!("copying-{access_point}");
        let unfinished = self.filesystems.join(filesystem).join(unfinished);
        remove_tree(&unfinished)?;
        let total = [Arc::new(self.ledgers(filesystem).open_total()?)];
        let standstill = Standstill::of(&total)?;
        let output = Command::new("cp")
            .args(["--archive", "--reflink=auto", "--no-target-directory"])
            .args([&from, &unfinished])
            .output()?;
        drop(standstill);
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(text));
        }
        if writable {
            std::fs::create_dir_all(self.marks(filesystem).join(access_point))?;
        }
        std::fs::rename(unfinished, snapshots.join(access_point))
    }

    /// The directory of a snapshot that was copied from another directory with a quota; none if that is elsewhere.
    pub fn copy_of(&self, source: &Found, filesystem: &str, access_point: &str) -> Option<PathBuf> {
        let place = match &source.access_point {
            None => self.root(filesystem),
            Some(access_point) => self.snapshots(filesystem).join(access_point),
        };
        let within = source.behind.strip_prefix(place).ok()?;
        let copy = self.snapshots(filesystem).join(access_point).join(within);
        copy.is_dir().then_some(copy)
    }

    /// The files of a filesystem, to be served.
    pub fn open(&self, filesystem: &str) -> io::Result<Tree> {
        let snapshots = Snapshots {
            directory: self.snapshots(filesystem),
            writable: self.marks(filesystem),
        };
        let ledgers = self.ledgers(filesystem);
        Tree::open(&self.root(filesystem), ledgers, Some(snapshots))
    }

    /// Marks the snapshots that can be written.
    fn marks(&self, filesystem: &str) -> PathBuf {
        self.filesystems.join(filesystem).join("writable")
    }

    /// Removes the files of a snapshot. Called twice: they are gone.
    pub fn remove_snapshot(&self, filesystem: &str, access_point: &str) -> io::Result<()> {
        remove_tree(&self.snapshots(filesystem).join(access_point))?;
        remove_tree(&self.marks(filesystem).join(access_point))
    }

    /// The inode of a path; none if there is no such path. Symbolic links are not followed.
    pub fn resolve(&self, filesystem: &str, path: &str) -> Option<u64> {
        let mut behind = self.root(filesystem);
        let components = Path::new(path)
            .components()
            .filter(|c| !matches!(c, Component::RootDir | Component::CurDir));
        for (depth, component) in components.enumerate() {
            let Component::Normal(name) = component else {
                return None;
            };
            if depth == 0 && name == SNAPSHOTS {
                behind = self.snapshots(filesystem);
            } else {
                if !behind.symlink_metadata().ok()?.is_dir() {
                    return None;
                }
                behind.push(name);
            }
        }
        let metadata = behind.symlink_metadata().ok()?;
        let inode = inode_of(&metadata);
        if metadata.is_dir() {
            self.remember(filesystem, inode, behind);
        }
        Some(inode)
    }

    /// The directory with this inode; none if there is none.
    ///
    /// Looks where it was last, then everywhere, nearest to the root first: directories of volumes are near to it.
    pub fn find(&self, filesystem: &str, inode: u64) -> io::Result<Option<Found>> {
        let is_it = |path: &Path| {
            path.symlink_metadata()
                .is_ok_and(|m| m.is_dir() && inode_of(&m) == inode)
        };
        let hint = self
            .seen
            .lock()
            .get(&(filesystem.to_owned(), inode))
            .cloned();
        if let Some(path) = hint.filter(|path| is_it(path)) {
            return Ok(Some(self.found(filesystem, path)));
        }
        let mut next = VecDeque::from([self.root(filesystem), self.snapshots(filesystem)]);
        while let Some(path) = next.pop_front() {
            if is_it(&path) {
                self.remember(filesystem, inode, path.clone());
                return Ok(Some(self.found(filesystem, path)));
            }
            for (number, path) in directories(&path)? {
                self.remember(filesystem, number, path.clone());
                next.push_back(path);
            }
        }
        Ok(None)
    }

    fn found(&self, filesystem: &str, behind: PathBuf) -> Found {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if let Ok(path) = behind.strip_prefix(self.snapshots(filesystem)) {
            let access_point = path.iter().next().map(|name| text(Path::new(name)));
            return Found {
                path: text(&Path::new("/").join(SNAPSHOTS).join(path)),
                access_point,
                behind,
            };
        }
        let path = behind
            .strip_prefix(self.root(filesystem))
            .map_or_else(|_| PathBuf::from("/"), |path| Path::new("/").join(path));
        Found {
            path: text(&path),
            access_point: None,
            behind,
        }
    }

    fn remember(&self, filesystem: &str, inode: u64, path: PathBuf) {
        self.seen
            .lock()
            .insert((filesystem.to_owned(), inode), path);
    }
}

/// Bytes that the files in a directory are charged with, each file once however many names it has.
pub fn usage(directory: &Path) -> io::Result<u64> {
    let mut links = std::collections::HashSet::new();
    let mut bytes = 0;
    let mut next = vec![directory.to_owned()];
    while let Some(path) = next.pop() {
        for entry in entries(&path)? {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                next.push(entry.path());
            } else if metadata.is_file() && links.insert(metadata.ino()) {
                bytes += charge_of(metadata.len());
            }
        }
    }
    Ok(bytes)
}

/// The directories in a directory, with their inodes.
fn directories(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    Ok(entries(path)?
        .into_iter()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| (shown_inode(entry.ino()), entry.path()))
        .collect())
}

/// What is in a directory; nothing if it went away meanwhile.
fn entries(path: &Path) -> io::Result<Vec<DirEntry>> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
