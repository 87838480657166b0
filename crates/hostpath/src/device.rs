//! The loop devices and mounts of one volume: which are its own, and whether it is in use.
//!
//! Everything is recognised by the inode of the image: a mount belongs to a volume if its device is a loop device that
//! stands for that image at this moment.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use stowage_host::blocking;
use stowage_host::loopdev::{BackingFile, Detached, LoopDevice, LoopError, LoopOptions};
use stowage_host::mountinfo::{Mount, MountTable};

use crate::driver::Host;
use crate::error::Error;
use crate::state::Image;

/// A filesystem's device goes with its mount, whoever unmounts it; a raw block volume's stays until it is unstaged.
pub(crate) const FILESYSTEM: LoopOptions = LoopOptions {
    read_only: false,
    autoclear: true,
    direct_io: false,
};
pub(crate) const BLOCK: LoopOptions = LoopOptions {
    autoclear: false,
    ..FILESYSTEM
};
/// A bind that is read-only does not keep anybody from writing to a device, so the device itself refuses.
pub(crate) const READ_ONLY_BLOCK: LoopOptions = LoopOptions {
    read_only: true,
    ..BLOCK
};

/// How long a disk may take for what was written to a device last; the kubelet waits for two minutes.
const FLUSH_TIME: Duration = Duration::from_secs(60);

impl Host {
    /// The devices of an image.
    pub(crate) async fn devices(&self, image: &Image) -> Result<Vec<LoopDevice>, Error> {
        let (loops, file) = (self.loops.clone(), image.reopen()?);
        Ok(blocking(move || loops.find(&file)).await?)
    }

    /// The device of an image with this access: the one it has, or a new one.
    pub(crate) async fn attach(
        &self,
        image: &Image,
        options: LoopOptions,
    ) -> Result<LoopDevice, Error> {
        // Not the locked descriptor: the device would keep the lock for as long as it lives.
        let (loops, file) = (self.loops.clone(), image.reopen()?);
        let attached = blocking(move || -> Result<LoopDevice, LoopError> {
            for device in loops.find(&file)? {
                let status = device.status()?;
                if status.is_some_and(|status| status.read_only == options.read_only) {
                    return Ok(device);
                }
            }
            loops.attach(&file, options)
        });
        Ok(attached.await?)
    }

    /// Has the devices of an image pass the page cache by, or not.
    pub(crate) async fn set_direct_io(&self, image: &Image, on: bool) -> Result<(), Error> {
        for device in self.devices(image).await? {
            let set = blocking(move || {
                let status = device.status()?;
                if status.is_some_and(|status| status.direct_io != on) {
                    device.set_direct_io(on)?;
                }
                Ok(())
            });
            set.await.map_err(|error| match error {
                LoopError::Refusal { ref source, .. }
                    if Errno::from_io_error(source) == Some(Errno::INVAL) =>
                {
                    Error::NoDirectIo(error)
                }
                error => Error::Loop(error),
            })?;
        }
        Ok(())
    }

    /// Has in the image what was written to its devices: the kernel does so when the last user closes one, and somebody may
    /// have it open still. A disk that hangs ends the call.
    pub(crate) async fn write_out(&self, image: &Image) -> Result<(), Error> {
        // They stay open meanwhile, so that none becomes another image's.
        let devices = self.devices(image).await?;
        for device in &devices {
            self.flushes.flush(device.path(), FLUSH_TIME).await?;
        }
        Ok(())
    }

    /// Takes the image away from those of its devices that fit, with all that was written to them in it. Kernel and others may keep
    /// one for a moment longer.
    pub(crate) async fn detach(
        &self,
        image: &Image,
        fits: impl Fn(&LoopDevice) -> bool + Send + 'static,
    ) -> Result<(), Error> {
        self.write_out(image).await?;
        let (loops, file) = (self.loops.clone(), image.reopen()?);
        let detached = blocking(move || -> Result<(), LoopError> {
            for device in loops.find(&file)? {
                if !fits(&device) {
                    continue;
                }
                let path = device.path().to_owned();
                if device.detach(&loops)? == Detached::WhenClosed {
                    tracing::info!(device = %path.display(), "The device is still open; it is detached when it is closed.");
                }
            }
            Ok(())
        });
        Ok(detached.await?)
    }

    /// All mounts as they are now.
    pub(crate) async fn mounts(&self) -> Result<Arc<MountTable>, Error> {
        Ok(self.mounter.table().await?)
    }

    /// Whether this mount shows the image's filesystem, or is a bind of one of its devices.
    pub(crate) fn shows(&self, mount: &Mount<'_>, backing: BackingFile) -> bool {
        let number = loop_number(mount.source()).or_else(|| bound_loop(mount));
        // What cannot be examined is not known to be ours.
        number.is_some_and(|number| matches!(self.loops.at(number, backing), Ok(Some(_))))
    }
}

/// `/dev/loop7` is 7.
fn loop_number(source: &OsStr) -> Option<u32> {
    let name = Path::new(source).strip_prefix("/dev").ok()?;
    name.to_str()?.strip_prefix("loop")?.parse().ok()
}

/// The device that a bind of a device's node shows.
pub(crate) fn bound_loop(mount: &Mount<'_>) -> Option<u32> {
    // A file called loop7 in any other filesystem is not a device.
    if !matches!(mount.kind().to_str(), Some("devtmpfs" | "tmpfs")) {
        return None;
    }
    let name = mount.root().file_name()?.to_str()?;
    name.strip_prefix("loop")?.parse().ok()
}

/// Whether a filesystem on this device is mounted, in whichever mount namespace.
pub(crate) async fn is_mounted(device: &LoopDevice) -> Result<bool, Error> {
    let path = device.path().to_owned();
    let (asked, number) = (path.clone(), device.number());
    // Exclusive access is what a mounted filesystem has.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match blocking(move || rustix::fs::open(&asked, flags, Mode::empty())).await {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(LoopError::Refusal {
            doing: "examination",
            number,
            source: errno.into(),
        }
        .into()),
    }
}
