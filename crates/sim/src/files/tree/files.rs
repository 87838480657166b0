//! Open files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fuser::{FileAttr, INodeNo};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fchmod, fstat, open, openat};

use super::change::{Owner, delta, give};
use super::{Tree, behind, shown};

/// What of a client's flags counts for the file behind.
const KEPT: OFlags = OFlags::RDWR
    .union(OFlags::WRONLY)
    .union(OFlags::APPEND)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC);

impl Tree {
    /// Opens a file.
    pub fn open_file(&self, node: INodeNo, flags: i32) -> io::Result<File> {
        let node = self.nodes.get(node.0)?;
        let flags = kept(flags);
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            node.view.check_writable()?;
        }
        Ok(File::from(open(node.path(), flags, Mode::empty())?))
    }

    /// Makes and opens a file.
    pub fn create_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
        owner: Owner,
    ) -> io::Result<(FileAttr, File)> {
        let parent = self.changeable(parent, name)?;
        let exclusive = kept(flags) | OFlags::CREATE | OFlags::EXCL;
        let private = Mode::from_raw_mode(0o600);
        let file = File::from(openat(&*parent, Path::new(name), exclusive, private)?);
        give(&file, &parent, owner)?;
        fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
        self.add_lookup(&parent, behind(&parent, name)?, parent.view)?;
        Ok((shown(&fstat(&file)?), file))
    }

    /// Reads.
    pub fn read(file: &File, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Writes, if what is written fits.
    pub fn write(
        &self,
        node: INodeNo,
        file: &File,
        offset: u64,
        data: &[u8],
        append: bool,
    ) -> io::Result<()> {
        let node = self.nodes.get(node.0)?;
        self.accounts.charge(&self.nodes, node.parent(), |charge| {
            let had = fstat(file)?;
            let size = u64::try_from(had.st_size).unwrap_or(0);
            let begin = if append { size } else { offset };
            let more = delta(&had, size.max(begin + data.len() as u64));
            charge(more)?;
            file.write_all_at(data, offset).inspect_err(|_| {
                // What was written of it stays uncharged: the error is the news.
                let _ = charge(-more);
            })
        })
    }

    /// Takes space for a file, or gives some back.
    pub fn allocate(
        &self,
        node: INodeNo,
        file: &File,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> io::Result<()> {
        let node = self.nodes.get(node.0)?;
        let flags = FallocateFlags::from_bits_retain(u32::try_from(mode).unwrap_or(0));
        if flags.intersects(FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        self.accounts.charge(&self.nodes, node.parent(), |charge| {
            let had = fstat(file)?;
            let size = u64::try_from(had.st_size).unwrap_or(0);
            let extra = if flags.contains(FallocateFlags::KEEP_SIZE) {
                0
            } else {
                delta(&had, size.max(offset + length))
            };
            charge(extra)?;
            fallocate(file, flags, offset, length).map_err(io::Error::from)
        })
    }
}

fn kept(flags: i32) -> OFlags {
    let given = OFlags::from_bits_retain(u32::from_ne_bytes(flags.to_ne_bytes()));
    (given & KEPT) | OFlags::CLOEXEC
}
