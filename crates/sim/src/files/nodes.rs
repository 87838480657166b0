//! The files that the kernel knows of, each with a descriptor that keeps it from being taken for another.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::INodeNo;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, open};

/// Which part of a filesystem a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The filesystem as it is.
    Live,
    /// The directory `.snapshots`.
    Snapshots,
    /// A snapshot.
    Snapshot {
        /// The inode of its root: one snapshot is not another.
        root: u64,
        /// Whether it can be written.
        writable: bool,
    },
}

impl View {
    /// Refuses changes where nothing can be changed.
    pub fn check_writable(self) -> io::Result<()> {
        match self {
            Self::Live | Self::Snapshot { writable: true, .. } => Ok(()),
            Self::Snapshots
            | Self::Snapshot {
                writable: false, ..
            } => Err(io::Error::from_raw_os_error(libc::EROFS)),
        }
    }
}

/// A file that the kernel knows of.
#[derive(Debug)]
pub struct Node {
    /// What the kernel calls it: its inode number, but 1 for the root.
    pub id: u64,
    /// Its inode number, as everybody sees it.
    pub inode: u64,
    /// Where it is.
    pub view: View,
    descriptor: OwnedFd,
    parent: AtomicU64,
    lookups: AtomicU64,
}

impl Node {
    /// The directory it was last seen in.
    pub fn parent(&self) -> u64 {
        self.parent.load(Ordering::Relaxed)
    }

    /// A path that leads to this file whatever its name is now.
    pub fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The files that the kernel knows of.
#[derive(Debug)]
pub struct Nodes {
    known: Mutex<HashMap<u64, Arc<Node>>>,
}

impl Nodes {
    /// Only the root, so far.
    pub fn new(root: &Path, inode: u64) -> io::Result<Self> {
        let descriptor = open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let id = INodeNo::ROOT.0;
        let root = Node {
            id,
            inode,
            view: View::Live,
            descriptor,
            parent: AtomicU64::new(id),
            lookups: AtomicU64::new(1),
        };
        Ok(Self {
            known: Mutex::new(HashMap::from([(id, Arc::new(root))])),
        })
    }

    /// One that the kernel knows.
    pub fn get(&self, id: u64) -> io::Result<Arc<Node>> {
        self.known
            .lock()
            .get(&id)
            .cloned()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// Counts one more lookup of a file in `parent` by the kernel.
    pub fn add_lookup(
        &self,
        inode: u64,
        descriptor: OwnedFd,
        parent: u64,
        view: View,
    ) -> Arc<Node> {
        let mut known = self.known.lock();
        let node = known.entry(inode).or_insert_with(|| {
            Arc::new(Node {
                id: inode,
                inode,
                view,
                descriptor,
                parent: AtomicU64::new(parent),
                lookups: AtomicU64::new(0),
            })
        });
        node.parent.store(parent, Ordering::Relaxed);
        node.lookups.fetch_add(1, Ordering::Relaxed);
        Arc::clone(node)
    }

    /// The kernel forgets this many lookups of a file.
    pub fn forget(&self, id: u64, times: u64) {
        let mut known = self.known.lock();
        let Some(node) = known.get(&id) else {
            return;
        };
        let before = node.lookups.fetch_sub(times, Ordering::Relaxed);
        if before <= times && id != INodeNo::ROOT.0 {
            known.remove(&id);
        }
    }

    /// A file is in another directory now.
    pub fn moved(&self, inode: u64, parent: u64) {
        if let Some(node) = self.known.lock().get(&inode) {
            node.parent.store(parent, Ordering::Relaxed);
        }
    }

    /// From a directory up to the root of the filesystem, or of the snapshot it is in: what a snapshot holds is not in the
    /// directory that shows it.
    pub fn ancestry(&self, id: u64) -> Vec<Arc<Node>> {
        let known = self.known.lock();
        let mut line: Vec<Arc<Node>> = Vec::new();
        let mut next = id;
        while let Some(node) = known.get(&next) {
            if line.last().is_some_and(|below| below.view != node.view) {
                break;
            }
            line.push(Arc::clone(node));
            if node.id == INodeNo::ROOT.0 {
                break;
            }
            next = node.parent();
        }
        line
    }
}
