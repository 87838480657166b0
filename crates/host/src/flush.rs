//! Writing out what the kernel has only in memory of a block device, in a way that a device that hangs cannot block its caller.
//!
//! Who writes to a device without a filesystem need not write it out, and nobody else does in time: the kernel does so when
//! its last user closes it, which may be whoever takes it away, and then keeps errors to itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Outcome;
use super::workers::{Stuck, Workers};

/// How many calls may wait for one device that hangs, a thread each.
const MOST_HUNG: usize = 4;

/// What the kernel says of a device that it does not have any more.
const GONE: &[Errno] = &[Errno::NXIO, Errno::NODEV, Errno::NOENT];

/// Why something may still be in memory only, or lost.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// The device does not answer.
    #[error("what was written to {} is still in memory: the device does not take it", device.display())]
    Hung {
        /// The device.
        device: PathBuf,
        /// For how long.
        #[source]
        source: Stuck,
    },
    /// The device refuses. The kernel does not try again by itself.
    #[error("what was written to {} last may be lost: the device refused it", device.display())]
    Refusal {
        /// The device.
        device: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Writes devices out. One per process, so that threads that wait for a device are counted.
#[derive(Clone)]
pub struct Flushes {
    workers: Workers,
}

impl Default for Flushes {
    fn default() -> Self {
        Self {
            workers: Workers::new(MOST_HUNG),
        }
    }
}

impl Flushes {
    /// Writes out all that was written to a block device before this call, and has the device make it durable. A device that is
    /// gone, or none at all, has nothing.
    ///
    /// Called twice: there is less to write. A call never joins one that is under way, which may have begun before the last write.
    pub async fn flush(&self, device: &Path, patience: Duration) -> Result<Outcome, FlushError> {
        let (place, path) = (device.to_string_lossy().into_owned(), device.to_owned());
        let flushed = self
            .workers
            .run(&place, patience, move || flush(&path))
            .await;
        let device = device.to_owned();
        match flushed {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(source)) => Err(FlushError::Refusal { device, source }),
            Err(source) => Err(FlushError::Hung { device, source }),
        }
    }
}

/// Writes a block device out. Blocks, for ever if the device hangs.
fn flush(device: &Path) -> io::Result<Outcome> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device: File = match rustix::fs::open(device, flags, Mode::empty()) {
        Ok(opened) => opened.into(),
        Err(errno) if GONE.contains(&errno) => return Ok(Outcome::Already),
        Err(errno) => return Err(errno.into()),
    };
    if !device.metadata()?.file_type().is_block_device() {
        return Ok(Outcome::Already);
    }
    device.sync_all()?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_device_has_nothing_in_memory() {
        let (file, patience) = (
            tempfile::NamedTempFile::new().unwrap(),
            Duration::from_secs(10),
        );
        for path in [file.path(), Path::new("/dev/gone")] {
            let flushed = Flushes::default().flush(path, patience).await.unwrap();
            assert_eq!(flushed, Outcome::Already, "{}", path.display());
        }
    }
}
