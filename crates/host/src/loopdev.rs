//! Loop devices: files that look like disks.
//!
//! The table of loop devices is one for the whole machine, whatever containers there are, and others use it too. So a
//! device is known by its backing file, and the file by device and inode: paths mean different things to different
//! processes. Nothing here touches a device that stands for another file. Partitions are never scanned: what a user
//! writes into a volume must not make devices on the host. All functions block.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::io::Errno;

use super::{Calls, ioctl};
use crate::stat::is_corruption;

mod attach;
mod detach;
mod nodes;

/// Whether the file of a device is on a filesystem that is dead.
fn is_dead(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_corruption)
}

/// The file behind a loop device, by what does not change when it is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BackingFile {
    /// The number of the filesystem's device.
    pub device: u64,
    /// The inode there.
    pub inode: u64,
}

impl BackingFile {
    /// The identity of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

/// How to attach a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopOptions {
    /// Nothing can be written through the device.
    pub read_only: bool,
    /// The device lets go of its file when its last user closes it. For filesystems: an unmount, even one that
    /// happens after this process has died, then leaves no device behind.
    pub autoclear: bool,
    /// Pass the page cache of the backing file by, where its filesystem can; [`LoopStatus::direct_io`] shows whether it does.
    pub direct_io: bool,
}

/// What a loop device is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopStatus {
    /// The file it stands for.
    pub backing: BackingFile,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it goes with its last user.
    pub autoclear: bool,
    /// Whether it passes the page cache by.
    pub direct_io: bool,
}

/// What became of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detached {
    /// It is free now.
    Done,
    /// It no longer stood for this file.
    Already,
    /// Somebody still uses it; it becomes free when the last user closes it.
    WhenClosed,
}

/// Why there is no loop device.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The backing file cannot be examined.
    #[error("cannot examine the backing file")]
    Backing(#[source] io::Error),
    /// The kernel has no loop devices, or the container does not see them.
    #[error("cannot open {}: loop devices need a privileged container or the host's /dev", path.display())]
    Control {
        /// What should be there.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The node of a device is missing and cannot be made, or is something else.
    #[error("{} cannot be used as the device node of a loop device", path.display())]
    Node {
        /// Its path.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses.
    #[error("cannot {doing} loop device {number}")]
    Refusal {
        /// What was being done.
        doing: &'static str,
        /// The device.
        number: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Others took every free device before it could be used.
    #[error("no free loop device after {attempts} attempts")]
    Contention {
        /// How often it was tried.
        attempts: u32,
    },
    /// The file is attached already, but in another way.
    #[error("the file is already attached to loop device {number}, which is {}", if *read_only { "read-only" } else { "writable" })]
    OtherAccess {
        /// The device.
        number: u32,
        /// What that device is.
        read_only: bool,
    },
}

/// The loop devices of a machine.
#[derive(Debug, Clone)]
pub struct Loops {
    dev: PathBuf,
    sys: PathBuf,
    calls: Calls,
}

impl Default for Loops {
    fn default() -> Self {
        Self {
            dev: PathBuf::from("/dev"),
            sys: PathBuf::from("/sys/block"),
            calls: Calls::Best,
        }
    }
}

impl Loops {
    /// Looks for device nodes in another directory than `/dev`.
    pub fn dev(mut self, directory: impl Into<PathBuf>) -> Self {
        self.dev = directory.into();
        self
    }

    /// Restricts the kernel calls that are made.
    pub fn calls(mut self, calls: Calls) -> Self {
        self.calls = calls;
        self
    }

    /// The device for this file: the one it has, or a new one.
    ///
    /// Called twice: the second call finds the first one's device. Two processes at the same time may make two: hold
    /// a lock on the file.
    pub fn ensure_attached(
        &self,
        backing: &File,
        options: LoopOptions,
    ) -> Result<LoopDevice, LoopError> {
        let mut other = None;
        for device in self.find(backing)? {
            let status = device.status()?;
            if status.is_some_and(|status| status.read_only == options.read_only) {
                return Ok(device);
            }
            other = status
                .map(|status| (device.number, status.read_only))
                .or(other);
        }
        match other {
            Some((number, read_only)) => Err(LoopError::OtherAccess { number, read_only }),
            None => self.attach(backing, options),
        }
    }

    /// All devices that stand for this file. Looks at every attached device of the machine.
    pub fn find(&self, backing: &File) -> Result<Vec<LoopDevice>, LoopError> {
        let backing = BackingFile::of(backing).map_err(LoopError::Backing)?;
        let mut found = Vec::new();
        for number in self.attached_numbers()? {
            match self.at(number, backing) {
                // Our file can be examined: a device whose file is on a filesystem that is dead stands for another.
                Err(LoopError::Refusal { source, .. }) if is_dead(&source) => {}
                device => found.extend(device?),
            }
        }
        Ok(found)
    }

    /// The device with this number, if it stands for this file: a quick check of a number remembered from before.
    pub fn at(&self, number: u32, backing: BackingFile) -> Result<Option<LoopDevice>, LoopError> {
        let device = match self.open(number, backing, false) {
            // It was removed meanwhile.
            Err(LoopError::Node { source, .. })
                if is(&source, &[Errno::NXIO, Errno::NODEV, Errno::NOENT]) =>
            {
                return Ok(None);
            }
            device => device?,
        };
        Ok(device.status()?.is_some().then_some(device))
    }

    /// The numbers of all devices that stand for a file.
    fn attached_numbers(&self) -> Result<Vec<u32>, LoopError> {
        let listing = |source| LoopError::Control {
            path: self.sys.clone(),
            source,
        };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.sys).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let name = entry.file_name();
            let number: Option<u32> = name
                .to_str()
                .and_then(|name| name.strip_prefix("loop")?.parse().ok());
            // Only a device in use has this directory; the many free ones need not be opened.
            numbers.extend(number.filter(|_| entry.path().join("loop").exists()));
        }
        Ok(numbers)
    }
}

/// An open loop device that stood for a certain file when it was opened. Dropping it closes it and no more.
///
/// As long as it is open the kernel does not give the device to another file, so that what was checked stays true.
#[derive(Debug)]
pub struct LoopDevice {
    number: u32,
    path: PathBuf,
    node: File,
    backing: BackingFile,
}

impl LoopDevice {
    /// The number in its name.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The path of its node.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The file it stands for.
    pub fn backing(&self) -> BackingFile {
        self.backing
    }

    /// What it is set to; none if it does not stand for our file any more.
    pub fn status(&self) -> Result<Option<LoopStatus>, LoopError> {
        let info = match ioctl::loop_get_status(&self.node) {
            Ok(info) => info,
            Err(error) if is(&error, &[Errno::NXIO]) => return Ok(None),
            Err(source) => return Err(self.refusal("examine", source)),
        };
        let has = |flag| info.flags & flag != 0;
        let status = LoopStatus {
            backing: BackingFile {
                device: info.device,
                inode: info.inode,
            },
            read_only: has(ioctl::LO_FLAGS_READ_ONLY),
            autoclear: has(ioctl::LO_FLAGS_AUTOCLEAR),
            direct_io: has(ioctl::LO_FLAGS_DIRECT_IO),
        };
        Ok((status.backing == self.backing).then_some(status))
    }

    /// Makes the device as large as its file is now.
    ///
    /// Called twice: the size is right already.
    pub fn refresh_size(&self) -> Result<(), LoopError> {
        ioctl::loop_set_capacity(&self.node).map_err(|source| self.refusal("resize", source))
    }

    /// Passes the page cache of the file by from now on, or not. Refused where the filesystem of the file cannot.
    ///
    /// Called twice: it does so already.
    pub fn set_direct_io(&self, on: bool) -> Result<(), LoopError> {
        attach::while_unsettled(|| ioctl::loop_set_direct_io(&self.node, on))
            .map_err(|source| self.refusal("set direct I/O of", source))
    }

    fn refusal(&self, doing: &'static str, source: io::Error) -> LoopError {
        LoopError::Refusal {
            doing,
            number: self.number,
            source,
        }
    }
}

impl AsFd for LoopDevice {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.node.as_fd()
    }
}

fn is(error: &io::Error, errnos: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| errnos.contains(&errno))
}
