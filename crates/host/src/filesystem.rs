//! Filesystems on block devices: what is there, format, check, grow, a new identity, freeze.
//!
//! The rule above all others: what holds something is never formatted. A device counts as empty only if it could be
//! read and `blkid` found no signature on it.

use std::path::PathBuf;
use std::str::FromStr;
use std::{fmt, io};

use super::exec::ExecError;
use super::mount::MountError;
use super::mountinfo::MountInfoError;
use super::stat::StatError;

mod check;
mod format;
mod freeze;
mod grow;
mod identity;
mod probe;
mod read_only;
mod superblock;

pub use check::{Checked, check};
pub use format::ensure_formatted;
pub use freeze::{Frozen, freeze, sync, thaw};
pub use grow::{Grown, grow, grow_unmounted};
pub use identity::renew_identity;
pub use probe::{Content, probe};
pub use read_only::read_only_options;

/// Below this an ext4 has no journal.
pub const EXT4_MINIMUM_BYTES: u64 = 2 * 1024 * 1024;
/// `mkfs.xfs` refuses less.
pub const XFS_MINIMUM_BYTES: u64 = 300 * 1024 * 1024;
/// `mkfs.btrfs` refuses less than 109 MiB.
pub const BTRFS_MINIMUM_BYTES: u64 = 110 * 1024 * 1024;
/// The kernel refuses to resize a btrfs to less, though it can be made smaller.
pub const BTRFS_GROWTH_MINIMUM_BYTES: u64 = 256 * 1024 * 1024;

/// The filesystems that can be made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FsKind {
    /// ext4, the default.
    #[default]
    Ext4,
    /// xfs.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FsKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name, as `mount -t` and Kubernetes' `fsType` have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The smallest device it can be made on.
    pub fn minimum_bytes(self) -> u64 {
        match self {
            Self::Ext4 => EXT4_MINIMUM_BYTES,
            Self::Xfs => XFS_MINIMUM_BYTES,
            Self::Btrfs => BTRFS_MINIMUM_BYTES,
        }
    }

    /// The smallest size that one of this kind can grow to.
    pub fn growth_minimum_bytes(self) -> u64 {
        match self {
            Self::Ext4 | Self::Xfs => 0,
            Self::Btrfs => BTRFS_GROWTH_MINIMUM_BYTES,
        }
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FsKind {
    type Err = FsError;

    fn from_str(name: &str) -> Result<Self, FsError> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| FsError::UnknownKind {
            name: name.to_owned(),
        })
    }
}

/// Why a filesystem is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// No such filesystem can be made here.
    #[error("unknown filesystem `{name}`: use ext4, xfs or btrfs")]
    UnknownKind {
        /// What was asked for.
        name: String,
    },
    /// A host tool failed.
    #[error(transparent)]
    Tool(#[from] ExecError),
    /// The device cannot be read.
    #[error("cannot read {}", device.display())]
    Unreadable {
        /// The device.
        device: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The size of the device is not known.
    #[error(transparent)]
    Size(#[from] StatError),
    /// The device is too small.
    #[error("{} has {bytes} bytes, but {kind} needs at least {}", device.display(), kind.minimum_bytes())]
    TooSmall {
        /// The device.
        device: PathBuf,
        /// Its size.
        bytes: u64,
        /// The filesystem.
        kind: FsKind,
    },
    /// The device is larger than its filesystem, but not large enough for it to grow.
    #[error("{} has {bytes} bytes, but {kind} can only grow to {} or more", device.display(), kind.growth_minimum_bytes())]
    GrowthTooSmall {
        /// The device.
        device: PathBuf,
        /// Its size.
        bytes: u64,
        /// The filesystem.
        kind: FsKind,
    },
    /// The device holds something else.
    #[error("{} already holds {found}, so it is not formatted as {wanted}", device.display())]
    Foreign {
        /// The device.
        device: PathBuf,
        /// What is there.
        found: Content,
        /// What should be there.
        wanted: FsKind,
    },
    /// The device cannot be written, and what should be there is not.
    #[error("{} can only be read and holds {found}, no {wanted}: attach it for writing first, or name its filesystem", device.display())]
    Unmade {
        /// The device.
        device: PathBuf,
        /// What is there.
        found: Content,
        /// What should be there.
        wanted: FsKind,
    },
    /// The filesystem is damaged and has to be repaired by a person.
    #[error("the filesystem on {} needs manual repair: {said}", device.display())]
    Damaged {
        /// The device.
        device: PathBuf,
        /// What the check said.
        said: String,
    },
    /// A copy of a filesystem in use has a log that only a mount can apply, and the kernel refuses to mount it beside
    /// its original. Freeze or unmount the original before it is copied.
    #[error("the {kind} on {} has a log that could not be replayed", device.display())]
    PendingLog {
        /// The device.
        device: PathBuf,
        /// The filesystem.
        kind: FsKind,
        /// Why the mount failed.
        #[source]
        source: Option<MountError>,
    },
    /// The tool claims success and the identity is the old one.
    #[error("the UUID of the {kind} on {} did not change", device.display())]
    SameIdentity {
        /// The device.
        device: PathBuf,
        /// The filesystem.
        kind: FsKind,
    },
    /// The kernel grows a mounted ext4 only for those who may exceed limits. It grows before its next mount.
    #[error("growing the mounted ext4 on {} needs the capability SYS_RESOURCE", device.display())]
    GrowthRight {
        /// The device.
        device: PathBuf,
    },
    /// The filesystem could not be unmounted again.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The path is not a mount point, so what would be frozen is another filesystem.
    #[error("{} is not a mount point", point.display())]
    NotMounted {
        /// The path.
        point: PathBuf,
    },
    /// The table of mounts is not available.
    #[error(transparent)]
    Table(#[from] MountInfoError),
    /// The kernel refuses.
    #[error("cannot {doing} {}", point.display())]
    Refusal {
        /// What was being done.
        doing: &'static str,
        /// Where.
        point: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
