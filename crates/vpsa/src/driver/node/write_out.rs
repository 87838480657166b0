//! What was written to disks goes to their arrays before anybody lets go of them.
//!
//! Nobody else sees to it. A pod that writes to a raw disk need not; the kernel does when it takes a disk away, and tells nobody
//! that it could not.

use std::path::Path;
use std::time::Duration;

use stowage_api::causes::chain;
use stowage_host::flush::FlushError;

use super::NodeServices;
use super::disk::{Disk, is_device};
use crate::driver::error::Error;
use crate::driver::names::attachment_name;

/// How long a disk may take; a kubelet gives a call two minutes.
const PATIENCE: Duration = Duration::from_secs(60);

impl NodeServices {
    /// Writes out the raw disk that is shown at a path, if one is, while it still is: the next call finds it there again if
    /// this one fails. Called twice: there is less to write.
    pub(super) async fn write_out_shown(&self, volume: &str, path: &Path) -> Result<(), Error> {
        let view = self.mounter.look(path).await?;
        if view.mount().is_some_and(|mount| is_device(&mount)) {
            self.write_out(volume, path).await?;
        }
        Ok(())
    }

    /// Writes out the disk of a volume that was unmounted: what a filesystem could not write as it went, and what others
    /// wrote.
    pub(super) async fn write_out_own(&self, volume: &str, disk: &Disk) -> Result<(), Error> {
        for device in disk.topmost() {
            self.write_out(volume, &device.path).await?;
        }
        Ok(())
    }

    /// Writes out a disk that nobody has, and of which nobody knows whose it was. What it refuses the kernel does not keep.
    pub(super) async fn write_out_idle(&self, disk: &Disk) -> Result<(), Error> {
        for device in disk.topmost() {
            match self.flushes.flush(&device.path, self.patience()).await {
                Err(error @ FlushError::Hung { .. }) => return Err(Error::Unwritten(error)),
                Err(error) => tracing::warn!(
                    target = disk.target,
                    lun = disk.lun,
                    error = chain(&error),
                    "A disk that nobody uses is let go of."
                ),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// What an array has taken away from this node it takes no more, however often it is asked: as after a fence.
    async fn write_out(&self, volume: &str, device: &Path) -> Result<(), Error> {
        let Err(error) = self.flushes.flush(device, self.patience()).await else {
            return Ok(());
        };
        if matches!(error, FlushError::Refusal { .. }) && self.is_detached(volume).await {
            let error = chain(&error);
            tracing::warn!(
                volume,
                error,
                "The array has taken the disk away from this node before everything was written."
            );
            return Ok(());
        }
        Err(Error::Unwritten(error))
    }

    /// Whether an array has certainly detached a volume from this node: its VolumeAttachment goes after that.
    async fn is_detached(&self, volume: &str) -> bool {
        let name = attachment_name(volume, &self.node);
        matches!(self.attachment(&name).await, Ok(None))
    }

    /// So that a call has time left to say what hangs.
    fn patience(&self) -> Duration {
        PATIENCE.min(self.longest / 2)
    }
}
