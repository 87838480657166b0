//! A mount that nobody sees before its filesystem has answered, as with the kernel's own: until then it is in no table of
//! mounts, and the process that makes it cannot be killed.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, statat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};

/// What the flags of `mount(2)` are called where a mount is made in steps.
const ATTRIBUTES: &[(MountFlags, MountAttrFlags)] = &[
    (MountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
    (MountFlags::NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
    (MountFlags::NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
    (MountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
    (MountFlags::NOATIME, MountAttrFlags::MOUNT_ATTR_NOATIME),
    (
        MountFlags::NODIRATIME,
        MountAttrFlags::MOUNT_ATTR_NODIRATIME,
    ),
    (
        MountFlags::STRICTATIME,
        MountAttrFlags::MOUNT_ATTR_STRICTATIME,
    ),
];

/// Makes a mount of FUSE that is nowhere yet; `device` is what serves it.
pub fn make(source: &str, subtype: &str, flags: MountFlags, device: &File) -> io::Result<OwnedFd> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let device = device.as_raw_fd().to_string();
    for (key, value) in [
        ("source", source),
        ("subtype", subtype),
        ("fd", &device),
        ("rootmode", "40000"),
        ("user_id", "0"),
        ("group_id", "0"),
    ] {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_set_flag(&context, "allow_other")?;
    fsconfig_set_flag(&context, "default_permissions")?;
    if flags.contains(MountFlags::RDONLY) {
        fsconfig_set_flag(&context, "ro")?;
    }
    fsconfig_create(&context)?;
    let attributes = ATTRIBUTES
        .iter()
        .filter(|(flag, _)| flags.contains(*flag))
        .fold(MountAttrFlags::empty(), |all, (_, one)| all | *one);
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// Shows a mount at its target, once its filesystem has answered. One that does not answer is waited for: the kernel does
/// not let go of a process whose question has been read.
pub fn attach(mount: &OwnedFd, target: &Path) -> io::Result<()> {
    statat(mount, "", AtFlags::EMPTY_PATH)?;
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(mount, "", CWD, target, how)?)
}
