//! The bare system calls, each in its newest form with an older one to fall back to. All of them block.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind,
    mount_change, mount_remount, move_mount, open_tree, unmount as umount2,
};

use super::{Propagation, Unmount};
use crate::mountinfo::Reader;
use crate::{Calls, ioctl};

/// What an open descriptor is.
#[derive(Clone)]
pub(super) struct Opened {
    /// The mount it was opened through.
    pub mount_id: u64,
    /// Its path.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub directory: bool,
}

pub(super) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn examine(descriptor: BorrowedFd<'_>) -> Result<Opened, Errno> {
    let number = descriptor.as_raw_fd();
    let info =
        fs::read_to_string(format!("/proc/self/fdinfo/{number}")).map_err(|error| errno(&error))?;
    let mount_id = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
        .ok_or(Errno::NOSYS)?;
    let path = fs::read_link(proc_path(descriptor)).map_err(|error| errno(&error))?;
    if path.as_os_str().as_bytes().ends_with(b" (deleted)") && fs::symlink_metadata(&path).is_err()
    {
        return Err(Errno::NOENT);
    }
    let directory = FileType::from_raw_mode(fstat(descriptor)?.st_mode) == FileType::Directory;
    Ok(Opened {
        mount_id,
        path,
        directory,
    })
}

/// Whether something is mounted at `target`; none if the kernel cannot answer that (before Linux 5.6).
///
/// It is looked up with the order not to enter another mount: where one begins the kernel stops and says so, before
/// it asks that mount anything.
pub(super) fn is_mounted(target: &Path, calls: Calls) -> Result<Option<bool>, Errno> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Ok(None);
    };
    if calls == Calls::Old {
        return Ok(None);
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let parent = match open(parent, flags | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Some(false)),
        parent => parent?,
    };
    let flags = flags | OFlags::NOFOLLOW;
    match openat2(parent, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        Ok(_) | Err(Errno::NOENT) => Ok(Some(false)),
        Err(Errno::XDEV) => Ok(Some(true)),
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Binds what is open as `source`. A read-only bind is read-only before anybody can see it, from Linux 5.12.
pub(super) fn bind(
    source: BorrowedFd<'_>,
    target: &Path,
    read_only: bool,
    calls: Calls,
) -> Result<(), Errno> {
    let finished = match clone_tree(source, calls) {
        Ok(tree) => {
            let finished = !read_only
                || unless_unknown(
                    ioctl::mount_set_read_only(&tree).map_err(|error| errno(&error)),
                )?;
            // Without MOVE_MOUNT_T_SYMLINKS: a link planted at the target is refused.
            move_mount(
                &tree,
                c"",
                CWD,
                target,
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
            )?;
            finished
        }
        Err(Errno::NOSYS) => {
            let place = open(
                target,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            mount_bind(proc_path(source), proc_path(place.as_fd()))?;
            !read_only
        }
        Err(refused) => return Err(refused),
    };
    if finished {
        return Ok(());
    }
    make_read_only(target, calls).inspect_err(|_| {
        // A bind that stays writable is worse than none. If it cannot be undone, the error still says so.
        let _ = umount2(target, UnmountFlags::NOFOLLOW);
    })
}

/// A copy of the mount at `source`, attached nowhere; `ENOSYS` before Linux 5.2.
fn clone_tree(source: BorrowedFd<'_>, calls: Calls) -> Result<OwnedFd, Errno> {
    if calls == Calls::Old {
        return Err(Errno::NOSYS);
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(source, c"", flags)
}

pub(super) fn make_read_only(target: &Path, calls: Calls) -> Result<(), Errno> {
    let mount = open(
        target,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    if calls == Calls::Best
        && unless_unknown(ioctl::mount_set_read_only(&mount).map_err(|error| errno(&error)))?
    {
        return Ok(());
    }
    // The old call replaces all flags of the mount, so those it has are repeated.
    let flags = flags_of(mount.as_fd())?;
    mount_remount(
        proc_path(mount.as_fd()),
        MountFlags::BIND | MountFlags::RDONLY | flags,
        c"",
    )
}

/// The flags of the mount that a descriptor was opened through.
fn flags_of(descriptor: BorrowedFd<'_>) -> Result<MountFlags, Errno> {
    const FLAGS: [(&str, MountFlags); 6] = [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
        ("nodiratime", MountFlags::NODIRATIME),
        ("relatime", MountFlags::RELATIME),
    ];
    let opened = examine(descriptor)?;
    let table = Reader::default().table().map_err(|_| Errno::IO)?;
    let mount = table.with_id(opened.mount_id).ok_or(Errno::INVAL)?;
    let has = FLAGS.iter().filter(|(option, _)| mount.has_option(option));
    Ok(has.fold(MountFlags::empty(), |flags, (_, flag)| flags | *flag))
}

pub(super) fn unmount(target: &Path, how: Unmount) -> Result<(), Errno> {
    let flags = match how {
        Unmount::Normal => UnmountFlags::NOFOLLOW,
        Unmount::Force => UnmountFlags::NOFOLLOW | UnmountFlags::FORCE,
        Unmount::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    umount2(target, flags)
}

pub(super) fn set_propagation(target: &Path, propagation: Propagation) -> Result<(), Errno> {
    let flags = match propagation {
        Propagation::Private => MountPropagationFlags::PRIVATE,
        Propagation::Shared => MountPropagationFlags::SHARED,
        Propagation::Slave => MountPropagationFlags::DOWNSTREAM,
    };
    mount_change(target, flags)
}

/// The name under which a path call reaches an open descriptor.
fn proc_path(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// Whether it was done; not done if the kernel does not know the call.
fn unless_unknown(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::NOSYS) => Ok(false),
        Err(refused) => Err(refused),
    }
}

pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
