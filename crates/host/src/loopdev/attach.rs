//! Giving a free loop device to a file.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;
use std::{io, thread};

use rustix::io::Errno;

use super::{BackingFile, LoopDevice, LoopError, LoopOptions, Loops, is};
use crate::{Calls, ioctl};

/// How often a free device is looked for. Whoever is faster gets it, and on a node that starts many pods there are
/// many who look.
const ATTEMPTS: u32 = 200;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How often settings are tried while the kernel still empties the device's cache.
const SETTING_ATTEMPTS: u32 = 64;

/// The sector size that all filesystems and the larger part of all programs expect.
const SECTOR: u32 = 512;

impl Loops {
    /// Attaches a file to a free device.
    ///
    /// Called twice: makes a second device. See [`Loops::ensure_attached`].
    pub fn attach(&self, backing: &File, options: LoopOptions) -> Result<LoopDevice, LoopError> {
        let identity = BackingFile::of(backing).map_err(LoopError::Backing)?;
        let control = self.open_control()?;
        for attempt in 0..ATTEMPTS {
            let path = self.control_path();
            let number = ioctl::loop_get_free(&control)
                .map_err(|source| LoopError::Control { path, source })?;
            // A device that is opened for reading refuses writes: the only way the older calls have.
            let device = match self.open(number, identity, !options.read_only) {
                // Somebody removed it meanwhile.
                Err(LoopError::Node { source, .. }) if is(&source, &[Errno::NXIO, Errno::BUSY]) => {
                    thread::sleep(pause(attempt));
                    continue;
                }
                device => device?,
            };
            match configure(&device.node, backing, options, self.calls) {
                Ok(()) => return Ok(device),
                Err(error) if is(&error, &[Errno::BUSY]) => thread::sleep(pause(attempt)),
                Err(source) => return Err(device.refusal("attach", source)),
            }
        }
        Err(LoopError::Contention { attempts: ATTEMPTS })
    }
}

/// Others back off by the same rule, so no two pauses are equal.
fn pause(attempt: u32) -> Duration {
    let jitter = Duration::from_micros(fastrand::u64(..800));
    (jitter + Duration::from_micros(200) * attempt).min(LONGEST_PAUSE)
}

fn configure(device: &File, backing: &File, options: LoopOptions, calls: Calls) -> io::Result<()> {
    let flags = flags_of(options);
    if calls == Calls::Best {
        match ioctl::loop_configure(device, backing.as_fd(), SECTOR, ioctl::LoopInfo::new(flags)) {
            // Before Linux 5.8 the call is unknown, which loop devices say with EINVAL or ENOTTY. If it was something
            // else that they did not like, the older calls will not like it either.
            Err(error) if is(&error, &[Errno::INVAL, Errno::NOTTY, Errno::NOSYS]) => {}
            configured => return configured,
        }
    }
    ioctl::loop_set_fd(device, backing.as_fd())?;
    set_up(device, options, flags).inspect_err(|_| {
        // The device is ours by now. If it cannot be cleared either, the first error says why.
        let _ = ioctl::loop_clear(device);
    })
}

fn flags_of(options: LoopOptions) -> u32 {
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    flag(options.read_only, ioctl::LO_FLAGS_READ_ONLY)
        | flag(options.autoclear, ioctl::LO_FLAGS_AUTOCLEAR)
        | flag(options.direct_io, ioctl::LO_FLAGS_DIRECT_IO)
}

/// The settings of a device that has its file, by the older calls.
fn set_up(device: &File, options: LoopOptions, flags: u32) -> io::Result<()> {
    while_unsettled(|| ioctl::loop_set_status(device, ioctl::LoopInfo::new(flags)))?;
    if options.direct_io {
        // A wish: a file that cannot do it is served through the cache, as by the newer call.
        let _ = while_unsettled(|| ioctl::loop_set_direct_io(device, true));
    }
    Ok(())
}

/// Until Linux 5.x has written back what it cached it answers EAGAIN to a change of settings.
pub(super) fn while_unsettled(mut change: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..SETTING_ATTEMPTS {
        match change() {
            Err(error) if is(&error, &[Errno::AGAIN]) => thread::sleep(LONGEST_PAUSE),
            changed => return changed,
        }
    }
    change()
}
