//! Results, as the kernel wants them.

use std::io;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyXattr, Request, TimeOrNow,
};
use rustix::fs::Timespec;

use crate::files::tree::Owner;

/// Nothing is believed for long: other nodes change files, too.
pub const NO_TIME: Duration = Duration::ZERO;

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
