//! What the kernel asks, and what it is answered.

pub(crate) mod answers;
mod gate;
mod handles;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use self::answers::{
    attr, bytes, created, empty, entry, extended, listed, opened, owner, sizes, time, written,
};
pub use self::gate::{Gate, Served};
use super::tree::{Attributes, Tree};

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What another node wrote must not be hidden by pages that this one has cached. A kernel without it serves, too.
        let _ = config.add_capabilities(InitFlags::FUSE_AUTO_INVAL_DATA);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.with(|tree| tree.lookup(parent, name)));
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        self.tree.nodes.forget(node.0, times);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attr(reply, self.with(|tree| tree.attributes(node)));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = Attributes {
            mode,
            uid,
            gid,
            size,
            times: (atime.is_some() || mtime.is_some()).then(|| (time(atime), time(mtime))),
        };
        attr(reply, self.with(|tree| tree.set_attributes(node, &changed)));
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        bytes(reply, self.with(|tree| tree.read_link(node)));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let result = self.with(|tree| tree.make_node(parent, name, mode, device, owner(request)));
        entry(reply, result);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let result = self.with(|tree| tree.make_directory(parent, name, mode, owner(request)));
        entry(reply, result);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.with(|tree| tree.unlink(parent, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.with(|tree| tree.remove_directory(parent, name)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let result = self.with(|tree| tree.make_symlink(parent, name, target, owner(request)));
        entry(reply, result);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.with(|tree| tree.rename((parent, name), (new_parent, new_name), flags));
        empty(reply, renamed);
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.with(|tree| tree.link(node, parent, name)));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let file = self.with(|tree| tree.open_file(node, flags.0));
        opened(reply, file.map(|file| self.files.add(file)));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let file = self.with(|tree| tree.create_file(parent, name, mode, flags, owner(request)));
        let file = file.map(|(attributes, file)| (attributes, self.files.add(file)));
        created(reply, file);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.with(|_| self.files.get(handle));
        bytes(reply, file.and_then(|file| Tree::read(&file, offset, size)));
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let append = flags.0 & libc::O_APPEND != 0;
        let done = self
            .files
            .get(handle)
            .and_then(|file| self.with(|tree| tree.write(node, &file, offset, data, append)));
        written(reply, done.map(|()| data.len()));
    }

    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = self
            .files
            .get(handle)
            .and_then(|file| self.with(|tree| tree.allocate(node, &file, offset, length, mode)));
        empty(reply, allocated);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        empty(reply, self.with(|_| Ok(())));
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let file = self.with(|_| self.files.get(handle));
        empty(reply, file.and_then(|file| file.sync_data()));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.remove(handle);
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let entries = self.with(|tree| tree.entries(node));
        opened(reply, entries.map(|entries| self.directories.add(entries)));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        listed(reply, offset, self.with(|_| self.directories.get(handle)));
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.directories.remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.with(|_| Ok(())));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        sizes(reply, self.with(|tree| tree.accounts.total()));
    }

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        empty(
            reply,
            self.with(|tree| tree.set_extended(node, name, value, flags)),
        );
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        extended(reply, size, self.with(|tree| tree.extended(node, name)));
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        extended(reply, size, self.with(|tree| tree.extended_names(node)));
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.with(|tree| tree.remove_extended(node, name)));
    }
}
