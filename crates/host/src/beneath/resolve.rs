//! From a path to a descriptor without leaving the root.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat, openat2,
    readlinkat,
};
use rustix::io::Errno;

use super::Links;
use crate::Calls;

/// How often a path is tried again that others renamed meanwhile, before each component is looked at.
const RACES: usize = 16;

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Whether `openat2` is known to be missing: asked once, not for every file.
static UNKNOWN: AtomicBool = AtomicBool::new(false);

const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// `EXDEV` if the path leads out of the root, `ELOOP` if there is a link that may not be there.
pub(super) fn resolve(
    root: BorrowedFd<'_>,
    path: &Path,
    links: Links,
    calls: Calls,
) -> Result<OwnedFd, Errno> {
    if path.as_os_str().is_empty() {
        return openat(root, c".", FOUND | OFlags::DIRECTORY, Mode::empty());
    }
    if calls == Calls::Best && !UNKNOWN.load(Ordering::Relaxed) {
        match by_kernel(root, path, links) {
            Err(Errno::NOSYS) => UNKNOWN.store(true, Ordering::Relaxed),
            // EPERM: a container's filter from before this call. EAGAIN: renames all the time, which the walk can
            // stand because it never asks the kernel what `..` is.
            Err(Errno::PERM | Errno::AGAIN) => {}
            resolved => return resolved,
        }
    }
    walk(root, path, links)
}

fn by_kernel(root: BorrowedFd<'_>, path: &Path, links: Links) -> Result<OwnedFd, Errno> {
    let flags = match links {
        Links::Refused => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Links::Confined => ResolveFlags::IN_ROOT,
    };
    for _ in 0..RACES {
        match openat2(
            root,
            path,
            FOUND,
            Mode::empty(),
            flags | ResolveFlags::NO_MAGICLINKS,
        ) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens one component after the other, never following a link. The directories passed are kept open, so that `..`
/// is where we came from, wherever others may have moved it.
fn walk(root: BorrowedFd<'_>, path: &Path, links: Links) -> Result<OwnedFd, Errno> {
    let mut passed: Vec<OwnedFd> = Vec::new();
    let mut rest: VecDeque<Step> = steps(path).collect();
    let mut links_met = 0;
    while let Some(step) = rest.pop_front() {
        match (step, links) {
            (Step::Root, Links::Confined) => passed.clear(),
            (Step::Up, _) if passed.pop().is_some() || links == Links::Confined => {}
            (Step::Root | Step::Up, _) => return Err(Errno::XDEV),
            (Step::Down(name), _) => {
                let here = passed.last().map_or(root, AsFd::as_fd);
                let next = openat(here, name, FOUND | OFlags::NOFOLLOW, Mode::empty())?;
                if FileType::from_raw_mode(fstat(&next)?.st_mode) != FileType::Symlink {
                    passed.push(next);
                    continue;
                }
                links_met += 1;
                if links == Links::Refused || links_met > MOST_LINKS || is_magic(next.as_fd())? {
                    return Err(Errno::LOOP);
                }
                let target = PathBuf::from(OsString::from_vec(
                    readlinkat(&next, c"", Vec::new())?.into_bytes(),
                ));
                steps(&target).rev().for_each(|step| rest.push_front(step));
            }
        }
    }
    match passed.pop() {
        Some(found) => Ok(found),
        None => openat(root, c".", FOUND | OFlags::DIRECTORY, Mode::empty()),
    }
}

enum Step {
    Root,
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir | Component::Prefix(_) => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::CurDir => None,
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
    })
}

/// Links in `/proc` may lead anywhere, whatever their text says.
fn is_magic(link: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstatfs(link)?.f_type == PROC_SUPER_MAGIC)
}
