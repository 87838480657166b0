//! How full a filesystem is and how large a device, asked so that one hung mount cannot block the rest.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::workers::{SharedCalls, Stuck};

/// How long a filesystem may take to answer. Kubelet itself gives up on volume statistics after two minutes.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

/// How many hung mounts are waited for at a time, a thread each.
const MOST_HUNG: usize = 64;

/// Of one thing (bytes or inodes) how much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// All of it.
    pub total: u64,
    /// What is taken.
    pub used: u64,
    /// What ordinary users can still take; with `used` less than the total where the filesystem keeps a reserve.
    pub available: u64,
}

/// How full a filesystem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Of its bytes.
    pub bytes: Amount,
    /// Of its inodes; all zero on filesystems that do not count them (btrfs).
    pub inodes: Amount,
}

/// Whether a mount answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Alive,
    /// It answers only with this error: its server, daemon or device is gone for good.
    Corrupted(Errno),
    /// It does not answer.
    Hung,
    /// There is nothing at this path.
    Missing,
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum StatError {
    /// The mount does not answer.
    #[error("{} does not answer", path.display())]
    Hung {
        /// What was asked.
        path: PathBuf,
        /// For how long.
        #[source]
        source: Stuck,
    },
    /// The kernel refused.
    #[error("cannot examine {}", path.display())]
    Refusal {
        /// What was asked.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Asks filesystems how full they are. One per process, so that a hung path is asked once and not by everybody.
pub struct Stats {
    patience: Duration,
    filesystems: SharedCalls<PathBuf, Result<Usage, Errno>>,
    mounts: SharedCalls<PathBuf, Result<(), Errno>>,
    devices: SharedCalls<PathBuf, Result<u64, Errno>>,
    claims: SharedCalls<PathBuf, Result<bool, Errno>>,
}

impl Default for Stats {
    fn default() -> Self {
        Self::new(DEFAULT_PATIENCE)
    }
}

impl Stats {
    /// Gives each answer this much time.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            filesystems: SharedCalls::new(MOST_HUNG),
            mounts: SharedCalls::new(MOST_HUNG),
            devices: SharedCalls::new(MOST_HUNG),
            claims: SharedCalls::new(MOST_HUNG),
        }
    }

    /// How full the filesystem is that holds `path`.
    ///
    /// Called twice while the mount hangs: the second call waits for the first one's thread or fails at once.
    pub async fn usage(&self, path: &Path) -> Result<Usage, StatError> {
        let asked = path.to_owned();
        let answer = self
            .filesystems
            .run(path.to_owned(), self.patience, move || statfs(&asked))
            .await;
        settle(path, answer)
    }

    /// Whether the mount at `path` answers. Says nothing of whether something is mounted there.
    pub async fn health(&self, path: &Path) -> Health {
        let asked = path.to_owned();
        let answer = self
            .mounts
            .run(path.to_owned(), self.patience, move || touch(&asked))
            .await;
        match answer {
            Err(_) => Health::Hung,
            Ok(Err(Errno::NOENT)) => Health::Missing,
            Ok(Err(errno)) if is_corruption(errno) => Health::Corrupted(errno),
            Ok(_) => Health::Alive,
        }
    }

    /// The size of a block device (or of a regular file) in bytes.
    pub async fn device_bytes(&self, path: &Path) -> Result<u64, StatError> {
        let asked = path.to_owned();
        let answer = self
            .devices
            .run(path.to_owned(), self.patience, move || end_of(&asked))
            .await;
        settle(path, answer)
    }

    /// Whether somebody has a block device, or a part of it, for themselves: a mount in any namespace, LVM, md, a tool such
    /// as `mkfs`. Who only reads or writes it does not.
    ///
    /// Whoever wants it for themselves at the same moment is refused, so call it only for what nobody is about to mount.
    pub async fn is_claimed(&self, device: &Path) -> Result<bool, StatError> {
        let asked = device.to_owned();
        let answer = self
            .claims
            .run(device.to_owned(), self.patience, move || has_holder(&asked))
            .await;
        settle(device, answer)
    }
}

/// Whether a mount that answers with this error is beyond repair and has to be unmounted: its server is gone.
pub fn is_corruption(errno: Errno) -> bool {
    matches!(
        errno,
        // Who waits for an answer of FUSE's server while that dies hears of an aborted connection, everybody after that of none.
        Errno::NOTCONN | Errno::CONNABORTED | Errno::STALE | Errno::IO | Errno::HOSTDOWN
    )
}

fn settle<T>(path: &Path, answer: Result<Result<T, Errno>, Stuck>) -> Result<T, StatError> {
    match answer {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(errno)) => Err(StatError::Refusal {
            path: path.to_owned(),
            source: errno.into(),
        }),
        Err(source) => Err(StatError::Hung {
            path: path.to_owned(),
            source,
        }),
    }
}

fn statfs(path: &Path) -> Result<Usage, Errno> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Usage {
        bytes: Amount {
            total: bytes(stat.f_blocks),
            used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
            available: bytes(stat.f_bavail),
        },
        inodes: Amount {
            total: stat.f_files,
            used: stat.f_files.saturating_sub(stat.f_ffree),
            available: stat.f_favail,
        },
    })
}

/// Asks the filesystem, and then for its root: an xfs that shut itself down still knows how full it is.
fn touch(path: &Path) -> Result<(), Errno> {
    statfs(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        // A bound file or device. To open it might do something.
        Ok(_) | Err(Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Where the file ends: of a block device the only size that needs no ioctl.
fn end_of(path: &Path) -> Result<u64, Errno> {
    let end = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    end.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Tries to have the device. The kernel looks for another holder before it asks the device, so one that is dead is known
/// to be held all the same.
fn has_holder(device: &Path) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(device, flags, Mode::empty()) {
        Ok(_) | Err(Errno::NXIO | Errno::NODEV | Errno::NOENT | Errno::NOMEDIUM | Errno::IO) => {
            Ok(false)
        }
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_filesystem_reports_bytes_and_inodes() {
        let directory = tempfile::tempdir().unwrap();
        let usage = Stats::default().usage(directory.path()).await.unwrap();
        for amount in [usage.bytes, usage.inodes] {
            assert!(amount.total > 0 && amount.used > 0, "{usage:?}");
            assert!(amount.used + amount.available <= amount.total, "{usage:?}");
        }
    }

    #[tokio::test]
    async fn a_path_that_is_not_there_is_missing_and_named() {
        let stats = Stats::default();
        let error = stats.usage(Path::new("/no/such/path")).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot examine /no/such/path");
        assert_eq!(
            stats.health(Path::new("/no/such/path")).await,
            Health::Missing
        );
        assert_eq!(stats.health(Path::new("/")).await, Health::Alive);
    }

    #[tokio::test]
    async fn what_is_gone_is_nobodys() {
        let claimed = Stats::default().is_claimed(Path::new("/dev/gone")).await;
        assert!(!claimed.unwrap());
    }

    #[tokio::test]
    async fn a_file_has_its_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(12_345).unwrap();
        assert_eq!(
            Stats::default().device_bytes(file.path()).await.unwrap(),
            12_345
        );
    }
}
