//! `NodeStageVolume` and `NodeUnstageVolume`: once per volume, before the first pod and after the last.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stowage_csi::proto::csi::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse,
};
use stowage_host::filesystem::{
    Checked, Content, FsError, FsKind, Grown, check, ensure_formatted, grow, grow_unmounted, probe,
};
use stowage_host::loopdev::{LoopDevice, LoopOptions};
use stowage_host::mount::{FsMount, Unmount, ensure_mounted, ensure_unmounted};
use stowage_host::{Outcome, blocking};

use super::target::Found;
use crate::content::flush;
use crate::controller::check_access;
use crate::device::{self, bound_loop, is_mounted};
use crate::driver::{Driver, Host};
use crate::error::{Error, chain};
use crate::state::{Image, StateError, VolumeRecord};
use crate::usage::{Access, Usage};

/// A large filesystem replays a large log.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// What an image is to hold.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) kind: FsKind,
    /// It did so before.
    pub(super) formatted: bool,
}

/// Gives the volume a device, and mounts its filesystem, which is made if there is none.
pub(super) async fn stage(
    driver: Arc<Driver>,
    request: NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse, Error> {
    let usage = Usage::try_from(&request.volume_capability.unwrap_or_default())?;
    let _guard = driver.locks.lock(&request.volume_id)?;
    let (image, record) = driver.claim_volume(&request.volume_id).await?;
    check_access(&record, &usage)?;
    match usage.access {
        Access::Block => {
            let options = if usage.reads_only() {
                device::READ_ONLY_BLOCK
            } else {
                device::BLOCK
            };
            let options = LoopOptions {
                direct_io: record.direct_io,
                ..options
            };
            let device = driver.host.attach(&image, options).await?;
            blocking(move || device.refresh_size()).await?;
            driver.keep_devices(&image).await?;
        }
        Access::Filesystem => {
            let target = Path::new(&request.staging_target_path);
            check_staged(&driver, &image, target, &request.volume_id, &usage).await?;
            let options = LoopOptions {
                direct_io: record.direct_io,
                ..device::FILESYSTEM
            };
            let wanted = Wanted {
                kind: record.filesystem,
                formatted: record.formatted,
            };
            mount(&driver.host, &image, options, wanted, target, &usage).await?;
            driver.note_formatted(image, record).await;
        }
    }
    Ok(NodeStageVolumeResponse {})
}

/// Staged already is fine, but not in another way.
async fn check_staged(
    driver: &Driver,
    image: &Image,
    target: &Path,
    id: &str,
    usage: &Usage,
) -> Result<(), Error> {
    match driver.found_at(target, image.backing()?).await? {
        Found::Filesystem { read_only } if read_only != usage.reads_only() => {
            Err(Error::MountedDifferently {
                id: id.to_owned(),
                path: target.to_owned(),
                difference: "with a different access mode",
            })
        }
        _ => Ok(()),
    }
}

/// Mounts the filesystem of an image, ready for use: formatted, checked and as large as the image.
///
/// Called twice: the second call finds the mount.
pub(super) async fn mount(
    host: &Host,
    image: &Image,
    options: LoopOptions,
    wanted: Wanted,
    target: &Path,
    usage: &Usage,
) -> Result<Outcome, Error> {
    let kind = wanted.kind;
    let device = host.attach(image, options).await?;
    let device = refreshed(device).await?;
    if !is_mounted(&device).await? {
        prepare(host, image, &device, wanted).await?;
    }
    let mut options = usage.mount_flags.clone();
    if usage.reads_only() {
        options.push("ro".to_owned());
    }
    let mounted = FsMount {
        kind: kind.name().to_owned(),
        source: device.path().into(),
        target: target.to_owned(),
        options,
        timeout: MOUNT_TIMEOUT,
    };
    let outcome = ensure_mounted(&*host.mounter, &mounted).await?;
    if outcome == Outcome::Done && !mounted.read_only() {
        grow_mounted(host, &device, kind, target).await?;
    }
    Ok(outcome)
}

async fn refreshed(device: LoopDevice) -> Result<LoopDevice, Error> {
    let (device, refreshed) = blocking(move || {
        let refreshed = device.refresh_size();
        (device, refreshed)
    })
    .await;
    refreshed?;
    Ok(device)
}

/// Everything that is done to a filesystem while it is not mounted.
async fn prepare(
    host: &Host,
    image: &Image,
    device: &LoopDevice,
    wanted: Wanted,
) -> Result<(), Error> {
    let (exec, stats, path) = (&*host.exec, &*host.stats, device.path());
    let kind = wanted.kind;
    if wanted.formatted {
        check_content(host, image, device, kind).await?;
    } else if ensure_formatted(exec, stats, path, kind, &[]).await? == Outcome::Done {
        return flush(std::slice::from_ref(device)).await;
    }
    if check(exec, path, kind).await? == Checked::Repaired {
        tracing::warn!(device = %path.display(), %kind, "The filesystem had errors, which were repaired.");
    }
    if grow_unmounted(exec, stats, path, kind).await? == Grown::Done {
        tracing::info!(device = %path.display(), %kind, "The filesystem grew to the size of its volume.");
    }
    Ok(())
}

/// Whether what was on the device is there still. Where it is not, an empty filesystem would look as if the pod's data
/// had never been.
async fn check_content(
    host: &Host,
    image: &Image,
    device: &LoopDevice,
    kind: FsKind,
) -> Result<(), Error> {
    match probe(&*host.exec, device.path()).await? {
        Content::Filesystem { kind: found, .. } if found == kind.name() => Ok(()),
        Content::Empty | Content::Unfinished(_) => {
            let path = image.path().to_owned();
            Err(StateError::FilesystemLost { path, kind }.into())
        }
        found => Err(FsError::Foreign {
            device: device.path().to_owned(),
            found,
            wanted: kind,
        }
        .into()),
    }
}

impl Driver {
    /// Writes down that the volume holds its filesystem. Its pod need not wait for a disk that is full: it is tried
    /// again when the volume is staged next.
    ///
    /// Called twice: it is written already.
    async fn note_formatted(&self, image: Image, record: VolumeRecord) {
        if record.formatted {
            return;
        }
        let volume = record.id.clone();
        let formatted = VolumeRecord {
            formatted: true,
            ..record
        };
        if let Err(error) = self.write(image, formatted).await {
            let error = chain(&error);
            tracing::warn!(
                volume,
                error,
                "Cannot write down that the volume is formatted."
            );
        }
    }
}

/// What can only be grown while it is mounted: a copy in a larger volume, or one that was expanded while not in use.
async fn grow_mounted(
    host: &Host,
    device: &LoopDevice,
    kind: FsKind,
    target: &Path,
) -> Result<(), Error> {
    if kind == FsKind::Ext4 {
        return Ok(());
    }
    match grow(&*host.exec, &host.stats, device.path(), kind, target).await {
        // It is smaller than its volume, but all there.
        Err(error @ FsError::GrowthTooSmall { .. }) => {
            let error = chain(&error);
            tracing::warn!(
                error,
                "Cannot grow the filesystem to the size of its volume."
            );
            Ok(())
        }
        grown => Ok(grown?),
    }
}

/// A device that is taken away is soon another volume's, and a pod that still has its node would see that.
async fn check_unpublished(driver: &Driver, image: &Image, id: &str) -> Result<(), Error> {
    let (host, backing) = (driver.host.clone(), image.backing()?);
    let table = driver.host.mounts().await?;
    let published = blocking(move || {
        let bound = table.iter().filter(|mount| bound_loop(mount).is_some());
        let mut ours = bound.filter(|mount| host.shows(mount, backing));
        ours.next().map(|mount| mount.point().to_owned())
    });
    match published.await {
        Some(path) => Err(Error::InUse {
            id: id.to_owned(),
            by: format!("it is published at `{}`", path.display()),
        }),
        None => Ok(()),
    }
}

/// Unmounts the filesystem, or takes the device away.
pub(super) async fn unstage(
    driver: Arc<Driver>,
    request: NodeUnstageVolumeRequest,
) -> Result<NodeUnstageVolumeResponse, Error> {
    let target = Path::new(&request.staging_target_path);
    let place = Driver::place(&request.volume_id);
    let _guard = driver.locks.lock(&request.volume_id)?;
    let Some(image) = driver.lock_image(&place).await? else {
        return Err(Error::VolumeMissing(request.volume_id));
    };
    match driver.found_at(target, image.backing()?).await? {
        Found::Filesystem { .. } => {
            ensure_unmounted(&*driver.host.mounter, target, Unmount::Normal).await?;
        }
        Found::Nothing | Found::Device { .. } => {}
        Found::Foreign => {
            return Err(Error::NotMounted {
                id: request.volume_id.clone(),
                path: target.to_owned(),
            });
        }
    }
    // Devices of filesystems go by themselves; those of raw block volumes go here.
    check_unpublished(&driver, &image, &request.volume_id).await?;
    driver.leave_devices(&image).await?;
    if driver.others_need_devices(&image).await? {
        return Ok(NodeUnstageVolumeResponse {});
    }
    let blocks = |device: &LoopDevice| {
        let status = device.status().ok().flatten();
        status.is_some_and(|status| !status.autoclear)
    };
    driver.host.detach(&image, blocks).await?;
    Ok(NodeUnstageVolumeResponse {})
}
