//! Removing a directory with everything in it, all by descriptors.
//!
//! The tree was filled by a pod and may still be changing. No link is followed, no mount is entered, and neither the
//! number of files nor the depth of the tree may exhaust memory or descriptors.

use std::ffi::{CString, OsStr};
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, openat, openat2, renameat, unlinkat};
use rustix::io::Errno;

use super::{BeneathError, Root, failure};
use crate::{Calls, Outcome};

/// How many directories are open at a time. Deeper ones are moved up first.
const DEEPEST: usize = 64;

/// How often a directory is gone through without anything to remove, and is not empty all the same.
const FRUITLESS_PASSES: usize = 8;

/// What directories are called that were too deep and are about to be removed.
const MOVED_UP: &str = ".stowage-removing-";

impl Root {
    /// Removes what is at `path`, a directory with everything in it. `proceed` is called with the number of entries removed so
    /// far, once for each entry, and may stop it there.
    ///
    /// Called twice: the second call finds nothing to remove. A call that was stopped is continued by the next one.
    pub fn remove_tree(
        &self,
        path: &Path,
        mut proceed: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Outcome, BeneathError> {
        let (parent, name) = self.parent_of(path)?;
        let refused = |errno| match errno {
            // A tree that is not left by links is only left by mounts.
            Errno::XDEV | Errno::BUSY => BeneathError::Mounted {
                path: path.to_owned(),
            },
            errno => failure("remove", path, errno),
        };
        let name = CString::new(OsStr::as_bytes(name)).map_err(|_| refused(Errno::INVAL))?;
        match unlinkat(&parent, &name, AtFlags::empty()) {
            Ok(()) => return Ok(Outcome::Done),
            Err(Errno::NOENT) => return Ok(Outcome::Already),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(refused(errno)),
        }
        let mut removal = Removal {
            removed: 0,
            moved_up: 0,
            calls: self.calls,
            proceed: &mut proceed,
        };
        match removal.remove_directory(&parent, name) {
            Ok(ControlFlow::Continue(())) => Ok(Outcome::Done),
            Ok(ControlFlow::Break(())) => Err(BeneathError::Stopped {
                path: path.to_owned(),
            }),
            Err(Errno::NOENT) => Ok(Outcome::Already),
            Err(errno) => Err(refused(errno)),
        }
    }
}

struct Removal<'a> {
    removed: u64,
    moved_up: u64,
    calls: Calls,
    proceed: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

/// A directory that is being emptied.
struct Level {
    name: CString,
    entries: Dir,
    /// How much had been removed when its entries were last read from the beginning.
    removed_before: u64,
    fruitless: usize,
}

impl Removal<'_> {
    fn remove_directory(
        &mut self,
        parent: &OwnedFd,
        name: CString,
    ) -> Result<ControlFlow<()>, Errno> {
        let mut levels = vec![self.enter(parent.as_fd(), name)?];
        while let Some(level) = levels.last_mut() {
            match level.entries.read() {
                Some(entry) => {
                    let name = entry?.file_name().to_owned();
                    if name.as_c_str() == c"." || name.as_c_str() == c".." {
                        continue;
                    }
                    match unlinkat(level.entries.fd()?, &name, AtFlags::empty()) {
                        Ok(()) => {
                            if self.count().is_break() {
                                return Ok(ControlFlow::Break(()));
                            }
                        }
                        Err(Errno::NOENT) => {}
                        Err(Errno::ISDIR) => self.descend(&mut levels, name)?,
                        Err(errno) => return Err(errno),
                    }
                }
                None => {
                    if self.leave(parent, &mut levels)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn count(&mut self) -> ControlFlow<()> {
        self.removed += 1;
        (self.proceed)(self.removed)
    }

    fn descend(&mut self, levels: &mut Vec<Level>, name: CString) -> Result<(), Errno> {
        let (Some(top), Some(current)) = (levels.first(), levels.last()) else {
            return Ok(());
        };
        if levels.len() >= DEEPEST {
            return self.move_up(current.entries.fd()?, &name, top.entries.fd()?);
        }
        match self.enter(current.entries.fd()?, name) {
            Ok(level) => levels.push(level),
            // Somebody put something else in its place; the next pass removes that.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Moves a directory that is too deep to the top, where a later pass finds it.
    fn move_up(
        &mut self,
        from: BorrowedFd<'_>,
        name: &CString,
        top: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        loop {
            self.moved_up += 1;
            match renameat(from, name, top, format!("{MOVED_UP}{}", self.moved_up)) {
                // Left by a call that was stopped.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(Errno::NOENT) => return Ok(()),
                moved => return moved,
            }
        }
    }

    /// Removes the innermost directory, or goes through it again if it got new entries.
    fn leave(
        &mut self,
        parent: &OwnedFd,
        levels: &mut Vec<Level>,
    ) -> Result<ControlFlow<()>, Errno> {
        let Some((level, above)) = levels.split_last_mut() else {
            return Ok(ControlFlow::Continue(()));
        };
        let parent = above
            .last()
            .map_or(Ok(parent.as_fd()), |above| above.entries.fd())?;
        match unlinkat(parent, &level.name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let fruitless = level.removed_before == self.removed;
                level.fruitless = if fruitless { level.fruitless + 1 } else { 0 };
                if level.fruitless > FRUITLESS_PASSES {
                    return Err(Errno::NOTEMPTY);
                }
                level.removed_before = self.removed;
                level.entries.rewind();
                Ok(ControlFlow::Continue(()))
            }
            Ok(()) | Err(Errno::NOENT) => {
                levels.pop();
                Ok(self.count())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Opens a directory of the same mount.
    fn enter(&self, parent: BorrowedFd<'_>, name: CString) -> Result<Level, Errno> {
        const FLAGS: OFlags = OFlags::RDONLY
            .union(OFlags::DIRECTORY)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::CLOEXEC);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let opened = match self.calls {
            Calls::Best => openat2(parent, &name, FLAGS, Mode::empty(), resolve),
            Calls::Old => Err(Errno::NOSYS),
        };
        let directory = match opened {
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {
                let directory = openat(parent, &name, FLAGS, Mode::empty())?;
                if mount_of(directory.as_fd())? != mount_of(parent)? {
                    return Err(Errno::XDEV);
                }
                directory
            }
            opened => opened?,
        };
        Ok(Level {
            name,
            entries: Dir::new(directory)?,
            removed_before: self.removed,
            fruitless: 0,
        })
    }
}

/// The number of the mount that a descriptor was opened through. Device numbers would not do: a bind of the same
/// filesystem has the same.
fn mount_of(descriptor: BorrowedFd<'_>) -> Result<u64, Errno> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()));
    let info = info.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    info.lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
        .ok_or(Errno::NOSYS)
}
