//! Growing a filesystem to the size of its device.

use std::path::Path;
use std::time::Duration;

use super::check::check_fully;
use super::probe::read_head;
use super::{FsError, FsKind, superblock};
use crate::exec::{Exec, ExecError, Invocation, tools};
use crate::stat::Stats;

/// Growing writes new metadata in proportion to what is added.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// What a btrfs may leave unused at the end of a device.
const SECTOR: u64 = 64 * 1024;

/// What `resize2fs` says when the kernel refuses it the right; its exit code is that of every failure.
const NO_RIGHT: &str = "Permission denied to resize filesystem";

/// Whether there was something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grown {
    /// It is larger now.
    Done,
    /// It had all of its device.
    Already,
    /// This kind grows only while it is mounted.
    WhenMounted,
}

/// Grows the filesystem on `device`, mounted at `mount_point`, to all of the device. It stays in use meanwhile.
///
/// Called twice: the second call finds it grown and does nothing. [`FsError::GrowthRight`] where this process may not
/// grow a mounted ext4: then [`grow_unmounted`] does it before the next mount.
pub async fn grow(
    exec: &dyn Exec,
    stats: &Stats,
    device: &Path,
    kind: FsKind,
    mount_point: &Path,
) -> Result<(), FsError> {
    let bytes = stats.device_bytes(device).await?;
    if bytes < kind.growth_minimum_bytes() {
        // The tool would fail even if there were nothing to do.
        let fills_device = stats.usage(mount_point).await?.bytes.total + SECTOR > bytes;
        return if fills_device {
            Ok(())
        } else {
            Err(FsError::GrowthTooSmall {
                device: device.to_owned(),
                bytes,
                kind,
            })
        };
    }
    let invocation = match kind {
        FsKind::Ext4 => Invocation::new(tools::RESIZE2FS).arg("--").arg(device),
        FsKind::Xfs => Invocation::new(tools::XFS_GROWFS)
            .args(["-d", "--"])
            .arg(mount_point),
        FsKind::Btrfs => Invocation::new(tools::BTRFS)
            .args(["filesystem", "resize", "--", "max"])
            .arg(mount_point),
    };
    match exec.run(invocation.timeout(TIMEOUT)).await?.checked() {
        Ok(_) => Ok(()),
        Err(ExecError::Failure { said, .. }) if said.contains(NO_RIGHT) => {
            Err(FsError::GrowthRight {
                device: device.to_owned(),
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Grows a filesystem that is not mounted to all of its device, if its kind can do that. ext4 can, and wants a full
/// check before; so it is looked first whether there is anything to gain.
///
/// Called twice: the second call finds it grown and does nothing.
pub async fn grow_unmounted(
    exec: &dyn Exec,
    stats: &Stats,
    device: &Path,
    kind: FsKind,
) -> Result<Grown, FsError> {
    if kind != FsKind::Ext4 {
        return Ok(Grown::WhenMounted);
    }
    let size = superblock::ext4_size(&read_head(device).await?);
    let bytes = stats.device_bytes(device).await?;
    if size.is_none_or(|(blocks, block)| blocks >= bytes / block) {
        return Ok(Grown::Already);
    }
    check_fully(exec, device).await?;
    exec.run(
        Invocation::new(tools::RESIZE2FS)
            .arg("--")
            .arg(device)
            .timeout(TIMEOUT),
    )
    .await?
    .checked()?;
    Ok(Grown::Done)
}
