//! The nodes of loop devices.
//!
//! The kernel makes them in the host's `/dev`. A container with a `/dev` of its own got those that existed when it
//! started: the others are made here.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dev, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use super::{BackingFile, LoopDevice, LoopError, Loops};

/// Major and minor number of `/dev/loop-control`, the same on every Linux.
const CONTROL: (u32, u32) = (10, 237);

impl Loops {
    pub(super) fn control_path(&self) -> PathBuf {
        self.dev.join("loop-control")
    }

    /// Opens the node by which devices are asked for, which is made if it is missing. That is enough for a kernel that
    /// has not loaded its loop devices yet: the open makes it do so.
    pub(super) fn open_control(&self) -> Result<File, LoopError> {
        let path = self.control_path();
        let (major, minor) = CONTROL;
        let opened = ensure_node(&path, FileType::CharacterDevice, makedev(major, minor))
            .and_then(|()| OpenOptions::new().read(true).write(true).open(&path));
        opened.map_err(|source| LoopError::Control { path, source })
    }

    /// Opens the node of a device, which is made if it is missing.
    ///
    /// For writing only where that is needed: each close of a disk that was open for writing makes udev look at it.
    pub(super) fn open(
        &self,
        number: u32,
        backing: BackingFile,
        write: bool,
    ) -> Result<LoopDevice, LoopError> {
        let path = self.dev.join(format!("loop{number}"));
        match self.open_node(&path, number, write) {
            Ok(node) => Ok(LoopDevice {
                number,
                path,
                node,
                backing,
            }),
            Err(source) => Err(LoopError::Node { path, source }),
        }
    }

    fn open_node(&self, path: &Path, number: u32, write: bool) -> io::Result<File> {
        // To open the node of a device that does not exist would make one.
        let device = self.device_number(number).ok_or(Errno::NXIO)?;
        ensure_node(path, FileType::BlockDevice, device)?;
        OpenOptions::new().read(true).write(write).open(path)
    }

    /// As the kernel says: minor numbers depend on how many partitions it was told to expect.
    fn device_number(&self, number: u32) -> Option<Dev> {
        let said = fs::read_to_string(self.sys.join(format!("loop{number}/dev"))).ok()?;
        let (major, minor) = said.trim().split_once(':')?;
        Some(makedev(major.parse().ok()?, minor.parse().ok()?))
    }
}

/// Makes a node that is missing; an error if something else has its name.
///
/// Called twice: it is there.
fn ensure_node(path: &Path, kind: FileType, device: Dev) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_node(path, kind, device)?;
            fs::symlink_metadata(path)?
        }
        found => found?,
    };
    // A file of this name in a container's /dev must not be taken for a disk.
    if FileType::from_raw_mode(found.mode()) != kind || found.rdev() != device {
        return Err(io::Error::other("something else has this name"));
    }
    Ok(())
}

fn make_node(path: &Path, kind: FileType, device: Dev) -> io::Result<()> {
    match mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device) {
        // The kernel, or another process like this one, was faster.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(refused) => Err(refused.into()),
    }
}
