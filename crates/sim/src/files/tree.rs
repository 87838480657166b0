//! What operations do to the files behind a mounted filesystem.
//!
//! Everything is reached through descriptors of what the kernel knows, never through a path from the root: what
//! somebody renames or links meanwhile leads nowhere else.

mod change;
mod extended;
mod files;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};

pub use self::change::{Attributes, Owner};
use super::accounts::Accounts;
use super::nodes::{Node, Nodes, View};
use crate::files::ledger::Ledgers;
use crate::files::shown_inode;

/// A mounted filesystem.
#[derive(Debug)]
pub struct Tree {
    /// What the kernel knows of.
    pub nodes: Nodes,
    /// Whom bytes are charged to.
    pub accounts: Accounts,
    snapshots: Option<Snapshots>,
}

/// The directory of a root that holds its snapshots.
pub const SNAPSHOTS: &str = ".snapshots";

/// Where the snapshots of a filesystem are that shows them in [`SNAPSHOTS`].
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// A directory with one of each.
    pub directory: PathBuf,
    /// A directory with something of the same name for each that can be written.
    pub writable: PathBuf,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode number.
    pub inode: u64,
    /// What it is.
    pub kind: FileType,
}

impl Tree {
    /// The files below a directory.
    pub fn open(root: &Path, ledgers: Ledgers, snapshots: Option<Snapshots>) -> io::Result<Self> {
        let inode = shown_inode(rustix::fs::stat(root)?.st_ino);
        Ok(Self {
            nodes: Nodes::new(root, inode)?,
            accounts: Accounts::open(ledgers)?,
            snapshots,
        })
    }

    /// Finds a name in a directory for the kernel.
    pub fn lookup(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let parent = self.nodes.get(parent.0)?;
        let descriptor = match self.snapshots_at(&parent, name) {
            Some(snapshots) => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                open(&snapshots.directory, flags, Mode::empty())?
            }
            None => behind(&parent, name)?,
        };
        let view = self.view_of(&parent, name, shown_inode(fstat(&descriptor)?.st_ino));
        self.add_lookup(&parent, descriptor, view)
    }

    /// What `stat` shows.
    pub fn attributes(&self, node: INodeNo) -> io::Result<FileAttr> {
        let node = self.nodes.get(node.0)?;
        Ok(shown(&fstat(&*node)?))
    }

    /// Where a symbolic link leads.
    pub fn read_link(&self, node: INodeNo) -> io::Result<Vec<u8>> {
        let node = self.nodes.get(node.0)?;
        Ok(readlinkat(&*node, "", Vec::new())?.into_bytes())
    }

    /// What is in a directory.
    pub fn entries(&self, node: INodeNo) -> io::Result<Vec<Entry>> {
        let node = self.nodes.get(node.0)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut entries = Vec::new();
        for entry in Dir::new(open(node.path(), flags, Mode::empty())?)? {
            let entry = entry?;
            entries.push(Entry {
                name: entry.file_name().to_bytes().to_vec(),
                inode: shown_inode(entry.ino()),
                kind: kind(entry.file_type()),
            });
        }
        if let Some(snapshots) = self.snapshots_at(&node, SNAPSHOTS.as_ref()) {
            entries.push(Entry {
                name: SNAPSHOTS.as_bytes().to_vec(),
                inode: shown_inode(rustix::fs::stat(&snapshots.directory)?.st_ino),
                kind: FileType::Directory,
            });
        }
        Ok(entries)
    }

    /// Tells the kernel of a file that was opened or made in `parent`.
    fn add_lookup(&self, parent: &Node, descriptor: OwnedFd, view: View) -> io::Result<FileAttr> {
        let attributes = shown(&fstat(&descriptor)?);
        self.nodes
            .add_lookup(attributes.ino.0, descriptor, parent.id, view);
        Ok(attributes)
    }

    fn view_of(&self, parent: &Node, name: &OsStr, inode: u64) -> View {
        match parent.view {
            View::Live if self.snapshots_at(parent, name).is_some() => View::Snapshots,
            View::Snapshots => View::Snapshot {
                root: inode,
                writable: self
                    .snapshots
                    .as_ref()
                    .is_some_and(|snapshots| snapshots.writable.join(name).exists()),
            },
            view => view,
        }
    }

    /// The snapshots, if this is what shows them.
    fn snapshots_at(&self, parent: &Node, name: &OsStr) -> Option<&Snapshots> {
        let is_it = parent.id == INodeNo::ROOT.0 && name == SNAPSHOTS;
        self.snapshots.as_ref().filter(|_| is_it)
    }

    /// A directory in which `name` may be made, changed or removed.
    fn changeable(&self, parent: INodeNo, name: &OsStr) -> io::Result<Arc<Node>> {
        let parent = self.nodes.get(parent.0)?;
        parent.view.check_writable()?;
        if self.snapshots_at(&parent, name).is_some() {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        } else {
            Ok(parent)
        }
    }
}

/// The file with a name in a directory, whatever it is.
fn behind(parent: &Node, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, Path::new(name), flags, Mode::empty())?)
}

fn stat_in(parent: &Node, name: &OsStr) -> io::Result<Stat> {
    Ok(statat(parent, Path::new(name), AtFlags::SYMLINK_NOFOLLOW)?)
}

fn shown(stat: &Stat) -> FileAttr {
    let time = |seconds: i64, nanos: u64| {
        let whole = Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).unwrap_or(0));
        if seconds >= 0 {
            UNIX_EPOCH + whole
        } else {
            UNIX_EPOCH - whole
        }
    };
    FileAttr {
        ino: INodeNo(shown_inode(stat.st_ino)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: u32::try_from(stat.st_rdev).unwrap_or(0),
        blksize: 4096,
        flags: 0,
    }
}

fn kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        rustix::fs::FileType::RegularFile | rustix::fs::FileType::Unknown => FileType::RegularFile,
    }
}
