//! Filesystems of disks and of shares, as they are mounted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stowage_csi::proto::csi::volume_capability::MountVolume;
use stowage_host::filesystem::{
    Content, FsError, FsKind, check, ensure_formatted, grow, grow_unmounted, probe,
    read_only_options,
};
use stowage_host::mount::{FsMount, ensure_mounted};
use stowage_host::mountinfo::{Device, MountTable};
use stowage_host::{Outcome, blocking};

use super::NodeServices;
use crate::driver::error::Error;

/// A large filesystem replays a large log, and an array may be slow to answer.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How a volume is staged.
pub(super) struct Way {
    /// Where.
    pub staging: PathBuf,
    /// A filesystem; without it the disk itself.
    pub mount: Option<MountVolume>,
    /// Nothing may be written.
    pub read_only: bool,
}

impl NodeServices {
    /// Mounts a share.
    pub(super) async fn mount_share(
        &self,
        share: String,
        target: &Path,
        mount: MountVolume,
        read_only: bool,
    ) -> Result<(), Error> {
        let mut options = mount.mount_flags;
        options.extend(read_only.then(|| "ro".to_owned()));
        let mount = filesystem("nfs", share.into(), target, options);
        ensure_mounted(&*self.shares, &mount).await?;
        Ok(())
    }

    /// Mounts the filesystem of a disk, ready for use: formatted, checked and as large as the disk, unless it can only be
    /// read.
    pub(super) async fn mount_disk(
        &self,
        device: &Path,
        target: &Path,
        mount: MountVolume,
        read_only: bool,
    ) -> Result<(), Error> {
        let kind: FsKind = match mount.fs_type.as_str() {
            "" => self.default_filesystem,
            name => name.parse()?,
        };
        if !is_mounted(&*self.mounter.table().await?, device).await {
            self.prepare(device, kind, read_only).await?;
        }
        let mut options = mount.mount_flags;
        if read_only {
            let its = read_only_options(device, kind).await?;
            options.extend(its.iter().map(|option| (*option).to_owned()));
        }
        if kind == FsKind::Xfs {
            // A copy has the identity of its source, which may be mounted on this node as well.
            options.push("nouuid".to_owned());
        }
        let mount = filesystem(kind.name(), device.into(), target, options);
        let done = ensure_mounted(&*self.mounter, &mount).await?;
        if done == Outcome::Done && kind != FsKind::Ext4 && !mount.read_only() {
            grow(&*self.exec, &self.stats, device, kind, target).await?;
        }
        Ok(())
    }

    /// Everything that is done to a filesystem while it is not mounted.
    async fn prepare(&self, device: &Path, kind: FsKind, read_only: bool) -> Result<(), Error> {
        let (exec, stats) = (&*self.exec, &*self.stats);
        if read_only {
            return Ok(readable(probe(exec, device).await?, device, kind)?);
        }
        if ensure_formatted(exec, stats, device, kind, &[]).await? == Outcome::Already {
            check(exec, device, kind).await?;
            grow_unmounted(exec, stats, device, kind).await?;
        }
        Ok(())
    }
}

/// Whether a disk that cannot be written holds what is to be read. Neither can it be made nor mended.
fn readable(found: Content, device: &Path, wanted: FsKind) -> Result<(), FsError> {
    match found {
        Content::Filesystem { kind, .. } if kind == wanted.name() => Ok(()),
        found => Err(FsError::Unmade {
            device: device.to_owned(),
            found,
            wanted,
        }),
    }
}

/// Whether the filesystem of a device is mounted somewhere.
async fn is_mounted(table: &MountTable, device: &Path) -> bool {
    let device = device.to_owned();
    let number = blocking(move || Device::of_disk(&device)).await;
    number.is_some_and(|number| table.with_device(number).next().is_some())
}

fn filesystem(kind: &str, source: OsString, target: &Path, options: Vec<String>) -> FsMount {
    FsMount {
        kind: kind.to_owned(),
        source,
        target: target.to_owned(),
        options,
        timeout: MOUNT_TIMEOUT,
    }
}
