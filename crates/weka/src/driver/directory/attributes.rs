//! What is written at a directory: its size, where there are no quotas.

use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use stowage_host::PathError;

use super::Directory;
use crate::error::Error;
use crate::handle::{Handle, shown};

/// The size of a volume, in decimal, where there are no quotas.
pub(crate) const CAPACITY: &str = "user.weka_capacity";
/// The inner path of a volume.
const VOLUME_NAME: &str = "user.weka_k8s_volname";

/// What is written at a directory as its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Capacity {
    Absent,
    Bytes(u64),
    /// Not a size.
    Invalid(String),
}

impl Capacity {
    fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        match text.trim().parse() {
            Ok(bytes) => Self::Bytes(bytes),
            Err(_) => Self::Invalid(shown(&text)),
        }
    }
}

impl Directory {
    /// The size that is written at the directory, if any.
    pub(crate) fn recorded_bytes(&self) -> Result<Option<u64>, Error> {
        match self.capacity() {
            Ok(Capacity::Bytes(bytes)) => Ok(Some(bytes)),
            Ok(Capacity::Absent | Capacity::Invalid(_)) | Err(Errno::NOTSUP) => Ok(None),
            Err(errno) => Err(PathError::at("read the capacity of", &self.path)(errno).into()),
        }
    }

    /// What is written at the directory as its size.
    pub(crate) fn capacity(&self) -> Result<Capacity, Errno> {
        let mut buffer = [0_u8; 64];
        match fgetxattr(self.root.as_fd(), CAPACITY, &mut buffer[..]) {
            Ok(length) => Ok(Capacity::parse(&buffer[..length])),
            Err(Errno::NODATA) => Ok(Capacity::Absent),
            Err(Errno::RANGE) => Ok(Capacity::Invalid("a long text".to_owned())),
            Err(errno) => Err(errno),
        }
    }

    /// Takes away the size that is written at the directory.
    ///
    /// Called twice: there is none.
    pub(crate) fn forget_capacity(&self) -> Result<(), Error> {
        match fremovexattr(self.root.as_fd(), CAPACITY) {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(errno) => Err(PathError::at("remove the capacity of", &self.path)(errno).into()),
        }
    }

    /// Writes the size at the directory. It comes last: what has a size is complete.
    pub(crate) fn record(&self, handle: &Handle, bytes: u64) -> Result<(), Error> {
        let write = |name: &str, value: &str| {
            let written = fsetxattr(
                self.root.as_fd(),
                name,
                value.as_bytes(),
                XattrFlags::empty(),
            );
            written.map_err(PathError::at("write the capacity of", &self.path))
        };
        write(VOLUME_NAME, handle.inner())?;
        write(CAPACITY, &bytes.to_string())?;
        Ok(())
    }
}
