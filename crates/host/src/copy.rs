//! Copies of large files, in steps, and small files that are written as a whole or not at all.
//!
//! A copy shares its blocks with the original where the filesystem can (reflink). Otherwise data is copied and holes
//! stay holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, copy_file_range, ioctl_ficlone, seek};
use rustix::io::Errno;

use super::blocking;

mod atomic;

pub use atomic::{atomic_write, sweep_unfinished};

/// How much is copied in one step: some hundredths of a second on a slow disk.
const STEP: u64 = 16 * 1024 * 1024;

/// How much is read at a time where the kernel cannot copy by itself.
const BUFFER: usize = 256 * 1024;

/// How a copy was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The blocks are shared.
    Reflink,
    /// The data was copied.
    Data,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Up to where the original has been copied; holes count as copied.
    pub done: u64,
    /// The size of the original.
    pub total: u64,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The original cannot be read.
    #[error("cannot read the original")]
    Read(#[source] io::Error),
    /// The copy cannot be written.
    #[error("cannot write the copy")]
    Write(#[source] io::Error),
    /// The original became shorter while it was being copied.
    #[error("the original ends after {at} of {total} bytes")]
    Shrunk {
        /// Where it ends now.
        at: u64,
        /// How long it was.
        total: u64,
    },
}

/// Copies a file, on a thread where that may block. `progress` is called after each step.
///
/// The copy has the size of the original and is on the disk when this returns. Dropping the future stops the copy
/// after the step that is under way. The caller removes what was left: it is not a copy.
///
/// Called twice: the second call replaces what the first one wrote.
pub async fn copy_file(
    from: File,
    to: File,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Method, CopyError> {
    let mut copy = blocking(move || FileCopy::start(from, to)).await?;
    loop {
        progress(copy.progress());
        let (stepped, result) = blocking(move || {
            let result = copy.step();
            (copy, result)
        })
        .await;
        copy = stepped;
        if let Some(method) = result? {
            progress(copy.progress());
            return Ok(method);
        }
    }
}

/// A copy under way. All its functions block.
#[derive(Debug)]
pub struct FileCopy {
    from: File,
    to: File,
    done: u64,
    total: u64,
    method: Method,
    /// Whether the kernel can copy between the two files by itself.
    in_kernel: bool,
}

impl FileCopy {
    /// Empties `to` and tries a reflink, which does everything at once.
    pub fn start(from: File, to: File) -> Result<Self, CopyError> {
        // A device has a length too, but not in its metadata.
        let total = seek(&from, SeekFrom::End(0)).map_err(|errno| CopyError::Read(errno.into()))?;
        to.set_len(0).map_err(CopyError::Write)?;
        let method = match ioctl_ficlone(&to, &from) {
            Ok(()) => Method::Reflink,
            // Another filesystem, one that cannot, or a file that cannot.
            Err(
                Errno::OPNOTSUPP
                | Errno::XDEV
                | Errno::INVAL
                | Errno::NOTTY
                | Errno::NOSYS
                | Errno::PERM,
            ) => Method::Data,
            Err(errno) => return Err(CopyError::Write(errno.into())),
        };
        // What is only in memory yet may look like a hole on some filesystems.
        from.sync_data().map_err(CopyError::Read)?;
        to.set_len(total).map_err(CopyError::Write)?;
        let done = if method == Method::Reflink { total } else { 0 };
        Ok(Self {
            from,
            to,
            done,
            total,
            method,
            in_kernel: true,
        })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            done: self.done,
            total: self.total,
        }
    }

    /// Copies the next piece; the method when all is copied and on the disk.
    pub fn step(&mut self) -> Result<Option<Method>, CopyError> {
        let Some((start, end)) = self.next_data()? else {
            self.done = self.total;
            self.to.sync_all().map_err(CopyError::Write)?;
            return Ok(Some(self.method));
        };
        self.done = start;
        let end = end.min(start + STEP);
        while self.done < end {
            self.done += self.copy_some(end - self.done)?;
        }
        Ok(None)
    }

    /// The next stretch that is not a hole.
    fn next_data(&self) -> Result<Option<(u64, u64)>, CopyError> {
        if self.done >= self.total {
            return Ok(None);
        }
        let start = match seek(&self.from, SeekFrom::Data(self.done)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // A filesystem that knows nothing of holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((self.done, self.total))),
            Err(errno) => return Err(CopyError::Read(errno.into())),
        };
        let end = seek(&self.from, SeekFrom::Hole(start))
            .map_err(|errno| CopyError::Read(errno.into()))?;
        Ok((start < self.total).then_some((start, end.min(self.total))))
    }

    fn copy_some(&mut self, most: u64) -> Result<u64, CopyError> {
        if self.in_kernel {
            let (mut from, mut to) = (self.done, self.done);
            let length = usize::try_from(most).unwrap_or(BUFFER);
            match copy_file_range(&self.from, Some(&mut from), &self.to, Some(&mut to), length) {
                // Nothing copied although there is something: some kernels say so of files they cannot copy.
                Ok(0) => self.in_kernel = false,
                Ok(copied) => return Ok(copied as u64),
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF) => {
                    self.in_kernel = false;
                }
                Err(errno) => return Err(CopyError::Write(errno.into())),
            }
        }
        self.copy_by_hand(most)
    }

    fn copy_by_hand(&self, most: u64) -> Result<u64, CopyError> {
        let mut buffer = vec![0; usize::try_from(most).map_or(BUFFER, |most| most.min(BUFFER))];
        let read = self
            .from
            .read_at(&mut buffer, self.done)
            .map_err(CopyError::Read)?;
        if read == 0 {
            return Err(CopyError::Shrunk {
                at: self.done,
                total: self.total,
            });
        }
        let data = &buffer[..read];
        // The copy is a hole as yet, which reads as zeros.
        if data.iter().any(|&byte| byte != 0) {
            self.to
                .write_all_at(data, self.done)
                .map_err(CopyError::Write)?;
        }
        Ok(read as u64)
    }
}

#[cfg(test)]
mod tests;
