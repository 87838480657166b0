//! The kernel calls of which no crate here has a safe form: the only `unsafe` of this crate.
//!
//! Each function is one call; what it means and when to make it is the business of the caller.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{
    Getter, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, Updater, ioctl, opcode,
};

const LOOP_SET_FD: Opcode = 0x4C00;
const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_SET_STATUS64: Opcode = 0x4C04;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_SET_CAPACITY: Opcode = 0x4C07;
const LOOP_SET_DIRECT_IO: Opcode = 0x4C08;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const FIFREEZE: Opcode = opcode::read_write::<c_int>(b'X', 119);
const FITHAW: Opcode = opcode::read_write::<c_int>(b'X', 120);

/// Nothing can be written through the device.
pub(super) const LO_FLAGS_READ_ONLY: u32 = 1;
/// The device lets go of its file when the last user closes it.
pub(super) const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// The device passes the page cache of its file by.
pub(super) const LO_FLAGS_DIRECT_IO: u32 = 16;

/// The kernel's `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LoopInfo {
    /// The device of the filesystem that holds the backing file.
    pub device: u64,
    /// The backing file's inode there.
    pub inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    /// `LO_FLAGS_*`.
    pub flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    /// The whole file, with these flags.
    pub(super) fn new(flags: u32) -> Self {
        Self {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// The kernel's `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Asks for the number of a loop device that nobody uses; it is made if there is none.
pub(super) fn loop_get_free(control: impl AsFd) -> io::Result<u32> {
    // SAFETY: the call takes no argument and answers by its return value.
    let number = unsafe { ioctl(control, GetFree) }?;
    u32::try_from(number).map_err(|_| Errno::RANGE.into())
}

/// Gives a free loop device its backing file and settings in one step (Linux 5.8).
pub(super) fn loop_configure(
    device: impl AsFd,
    backing: BorrowedFd<'_>,
    block_size: u32,
    info: LoopInfo,
) -> io::Result<()> {
    let config = LoopConfig {
        fd: backing.as_raw_fd().cast_unsigned(),
        block_size,
        info,
        reserved: [0; 8],
    };
    // SAFETY: `LoopConfig` has the kernel's layout, and the kernel only reads it.
    Ok(unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, _>::new(config)) }?)
}

/// Gives a free loop device its backing file.
pub(super) fn loop_set_fd(device: impl AsFd, backing: BorrowedFd<'_>) -> io::Result<()> {
    let fd = usize::try_from(backing.as_raw_fd()).map_err(|_| Errno::BADF)?;
    // SAFETY: the argument is the number of a descriptor that is open during the call.
    Ok(unsafe { ioctl(device, IntegerSetter::<LOOP_SET_FD>::new_usize(fd)) }?)
}

/// Sets the flags of a loop device that has a backing file.
pub(super) fn loop_set_status(device: impl AsFd, info: LoopInfo) -> io::Result<()> {
    // SAFETY: `LoopInfo` has the kernel's layout, and the kernel only reads it.
    Ok(unsafe { ioctl(device, Setter::<LOOP_SET_STATUS64, _>::new(info)) }?)
}

/// Tells what a loop device stands for; `ENXIO` if it is free.
pub(super) fn loop_get_status(device: impl AsFd) -> io::Result<LoopInfo> {
    // SAFETY: `LoopInfo` has the kernel's layout, any bits are valid in it, and on success the kernel fills all of it.
    Ok(unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }?)
}

/// Takes the backing file away: at once, or if others have the device open, when they close it.
pub(super) fn loop_clear(device: impl AsFd) -> io::Result<()> {
    // SAFETY: the call takes no argument.
    Ok(unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }?)
}

/// Makes the device as large as its file is now.
pub(super) fn loop_set_capacity(device: impl AsFd) -> io::Result<()> {
    // SAFETY: the call takes no argument.
    Ok(unsafe { ioctl(device, NoArg::<LOOP_SET_CAPACITY>::new()) }?)
}

/// Makes the device pass the page cache of its file by; refused where the file cannot do that.
pub(super) fn loop_set_direct_io(device: impl AsFd, direct: bool) -> io::Result<()> {
    // SAFETY: the argument is an integer.
    Ok(unsafe {
        ioctl(
            device,
            IntegerSetter::<LOOP_SET_DIRECT_IO>::new_usize(usize::from(direct)),
        )
    }?)
}

/// Stops all writes to the filesystem that holds the file; `EBUSY` if they are stopped already.
pub(super) fn freeze(file: impl AsFd) -> io::Result<()> {
    let mut unused: c_int = 0;
    // SAFETY: the kernel ignores the argument; it is large enough for what the number of the call promises.
    Ok(unsafe { ioctl(file, Updater::<FIFREEZE, _>::new(&mut unused)) }?)
}

/// Lets writes go on; `EINVAL` if they were not stopped.
pub(super) fn thaw(file: impl AsFd) -> io::Result<()> {
    let mut unused: c_int = 0;
    // SAFETY: as in `freeze`.
    Ok(unsafe { ioctl(file, Updater::<FITHAW, _>::new(&mut unused)) }?)
}

/// Makes the mount that `tree` was opened on read-only and leaves its other settings alone (Linux 5.12).
pub(super) fn mount_set_read_only(tree: impl AsFd) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY,
        clear: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the descriptor is open, the path is a C string, the structure has the kernel's layout and the size that
    // is passed with it; the kernel keeps none of the pointers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `LOOP_CTL_GET_FREE`, which answers by its return value.
struct GetFree;

// SAFETY: the call takes no argument, changes nothing of this process, and its result is a plain number.
unsafe impl Ioctl for GetFree {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<IoctlOutput> {
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
        assert_eq!(size_of::<MountAttributes>(), 32);
        assert_eq!((FIFREEZE, FITHAW), (0xC004_5877, 0xC004_5878));
    }
}
