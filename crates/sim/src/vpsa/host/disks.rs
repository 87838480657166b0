//! Disks as files, for loop devices: a filesystem that is mounted nowhere, with a file for each disk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use fuser::{
    FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, statat};
use rustix::mount::{MountFlags, UnmountFlags, unmount};

use super::disk::Disk;
use crate::files::served::answers::{attr, bytes, empty, entry, written};
use crate::moment::fresh_secret;
use crate::mounting::{self, mount_served};

/// Between the label and the number of a file: what the kernel writes for a slash where there can be none.
const SEPARATOR: char = '!';

/// The disks of a node.
#[derive(Clone)]
pub struct Disks {
    known: Arc<Mutex<BTreeMap<u64, Arc<Disk>>>>,
    root: Arc<OwnedFd>,
    label: String,
}

impl Disks {
    /// Serves no disks yet. The names of their files begin with `label`: the kernel shows them of loop devices for as long
    /// as these are there, whatever becomes of this process.
    pub fn start(label: &str) -> io::Result<Self> {
        let known: Arc<Mutex<BTreeMap<u64, Arc<Disk>>>> = Arc::default();
        let place = fresh_directory()?;
        let device = mount_served("disks", &place, "fuse.vpsa", MountFlags::empty())?;
        let served = DiskFiles(Arc::clone(&known));
        let session = mounting::session(served, device.into())?;
        std::thread::spawn(move || session.run());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&place, flags, Mode::empty());
        // It lives as long as somebody has something of it open, and leaves nothing behind.
        unmount(&place, UnmountFlags::DETACH)?;
        std::fs::remove_dir(&place)?;
        Ok(Self {
            known,
            root: Arc::new(root?),
            label: label.to_owned(),
        })
    }

    /// Adds a disk; the file that it is, and the number of that file.
    pub fn add(&self, disk: Arc<Disk>, read_only: bool) -> io::Result<(u64, File)> {
        let number = fresh_number();
        self.known.lock().insert(number, disk);
        let access = if read_only {
            OFlags::RDONLY
        } else {
            OFlags::RDWR
        };
        let file = openat(
            self.root.as_fd(),
            self.name(number),
            access | OFlags::CLOEXEC,
            Mode::empty(),
        );
        if file.is_err() {
            self.remove(number);
        }
        Ok((number, file?.into()))
    }

    /// Lets the kernel ask how large the file of a disk is.
    pub fn refresh(&self, number: u64) -> io::Result<()> {
        statat(self.root.as_fd(), self.name(number), AtFlags::empty())?;
        Ok(())
    }

    /// The name of a disk's file.
    fn name(&self, number: u64) -> String {
        format!("{}{SEPARATOR}{number}", self.label)
    }

    /// A disk.
    pub fn get(&self, number: u64) -> Option<Arc<Disk>> {
        self.known.lock().get(&number).cloned()
    }

    /// Removes a disk: whoever has it open gets errors.
    pub fn remove(&self, number: u64) {
        self.known.lock().remove(&number);
    }
}

/// An empty directory.
fn fresh_directory() -> io::Result<std::path::PathBuf> {
    let path = std::env::temp_dir().join(format!("stowage-sim-disks-{:x}", fresh_number()));
    std::fs::create_dir(&path)?;
    Ok(path)
}

/// A number that nobody had before: by it a loop device is known again after this process has died.
fn fresh_number() -> u64 {
    let digits = fresh_secret(7);
    digits.bytes().fold(2, |number, digit| {
        number << 4 | u64::from(char::from(digit).to_digit(16).unwrap_or(0))
    })
}

struct DiskFiles(Arc<Mutex<BTreeMap<u64, Arc<Disk>>>>);

impl DiskFiles {
    fn get(&self, number: INodeNo) -> io::Result<Arc<Disk>> {
        let known = self.0.lock();
        let disk = known.get(&number.0).cloned();
        disk.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn attributes(&self, number: INodeNo) -> io::Result<FileAttr> {
        if number == INodeNo::ROOT {
            return Ok(attributes(number, FileType::Directory, 0));
        }
        let size = self.get(number)?.size();
        Ok(attributes(number, FileType::RegularFile, size))
    }
}

fn attributes(ino: INodeNo, kind: FileType, size: u64) -> FileAttr {
    FileAttr {
        ino,
        size,
        blocks: size / 512,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0o700,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for DiskFiles {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.rsplit_once(SEPARATOR));
        let number = number.and_then(|(_, number)| number.parse().ok());
        let found = number.ok_or_else(|| io::ErrorKind::NotFound.into());
        entry(
            reply,
            found.and_then(|number| self.attributes(INodeNo(number))),
        );
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attr(reply, self.attributes(number));
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.get(number) {
            // Nothing is cached here: other nodes write to the same disk.
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let disk = self.get(number);
        bytes(
            reply,
            disk.and_then(|disk| disk.read(offset, length.into())),
        );
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let disk = self.get(number);
        let done = disk.and_then(|disk| disk.write(offset, data));
        written(reply, done.map(|()| data.len()));
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let disk = self.get(number);
        empty(reply, disk.and_then(|disk| disk.synchronize()));
    }
}
