//! Results, as the kernel wants them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow,
};
use rustix::fs::Timespec;

use crate::files::ledger::BLOCK;
use crate::files::tree::{Entry, Owner};

/// More files than anybody makes.
const FILES: u64 = 1 << 32;

/// Nothing is believed for long: other nodes change files, too.
const NO_TIME: Duration = Duration::ZERO;

/// Answers with an entry or an error.
pub fn entry(reply: ReplyEntry, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.entry(&NO_TIME, &attributes, Generation(0)),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with attributes or an error.
pub fn attr(reply: ReplyAttr, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.attr(&NO_TIME, &attributes),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers that it is done, or with an error.
pub fn empty(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with bytes or an error.
pub fn bytes(reply: ReplyData, result: io::Result<Vec<u8>>) {
    match result {
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with what is open now, or with an error.
pub fn opened(reply: ReplyOpen, result: io::Result<FileHandle>) {
    match result {
        Ok(handle) => reply.opened(handle, FopenFlags::empty()),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with a new file that is open now, or with an error.
pub fn created(reply: ReplyCreate, result: io::Result<(FileAttr, FileHandle)>) {
    match result {
        Ok((attributes, handle)) => reply.created(
            &NO_TIME,
            &attributes,
            Generation(0),
            handle,
            FopenFlags::empty(),
        ),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with how much was written, or with an error.
pub fn written(reply: ReplyWrite, result: io::Result<usize>) {
    match result {
        Ok(bytes) => reply.written(u32::try_from(bytes).unwrap_or(u32::MAX)),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with the entries of a directory from `offset` on, as many as the kernel has room for.
pub fn listed(mut reply: ReplyDirectory, offset: u64, result: io::Result<Arc<Vec<Entry>>>) {
    let entries = match result {
        Ok(entries) => entries,
        Err(error) => return reply.error(Errno::from(error)),
    };
    let first = usize::try_from(offset).unwrap_or(usize::MAX);
    for (index, entry) in entries.iter().enumerate().skip(first) {
        let name = OsStr::from_bytes(&entry.name);
        if reply.add(INodeNo(entry.inode), index as u64 + 1, entry.kind, name) {
            break;
        }
    }
    reply.ok();
}

/// Answers with the size of the filesystem and what of it is used.
pub fn sizes(reply: ReplyStatfs, result: io::Result<(u64, u64)>) {
    match result {
        Ok((total, used)) => {
            let free = total.saturating_sub(used) / BLOCK;
            let block = u32::try_from(BLOCK).unwrap_or(u32::MAX);
            reply.statfs(total / BLOCK, free, free, FILES, FILES, block, 255, block);
        }
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Answers with an extended attribute, or with how long it is if the kernel asks for that.
pub fn extended(reply: ReplyXattr, size: u32, result: io::Result<Vec<u8>>) {
    match result {
        Ok(value) => match u32::try_from(value.len()) {
            Ok(length) if size == 0 => reply.size(length),
            Ok(length) if length <= size => reply.data(&value),
            _ => reply.error(Errno::ERANGE),
        },
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// Who asks.
pub fn owner(request: &Request) -> Owner {
    Owner {
        uid: request.uid(),
        gid: request.gid(),
    }
}

/// A time to set, to leave alone, or now.
pub fn time(time: Option<TimeOrNow>) -> Timespec {
    let special = |nanos| Timespec {
        tv_sec: 0,
        tv_nsec: nanos,
    };
    match time {
        None => special(rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: since.subsec_nanos().into(),
            }
        }
    }
}
