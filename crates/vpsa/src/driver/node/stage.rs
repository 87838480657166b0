//! `NodeStageVolume`, `NodeUnstageVolume`, `NodeExpandVolume`: once per volume, before the first pod and after the last.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stowage_api::vpsa::IscsiStatus;
use stowage_csi::proto::csi::volume_capability::{AccessType, MountVolume};
use stowage_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use stowage_csi::sizes::{Range, signed};
use stowage_host::filesystem::{FsKind, check, ensure_formatted, grow, grow_unmounted};
use stowage_host::mount::{
    Bind, BindSource, FsMount, Unmount, ensure_bind, ensure_mounted, ensure_unmounted,
    remove_mount_point,
};
use stowage_host::mountinfo::{Device, MountTable};
use stowage_host::{Outcome, blocking};

use super::disk::Disk;
use super::{NodeServices, not_mounted};
use crate::driver::error::Error;
use crate::driver::publication::Publication;
use crate::driver::usage;

/// A large filesystem replays a large log, and an array may be slow to answer.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The name of a raw device in its staging directory.
const DEVICE: &str = "device";

/// Where a raw device is staged.
pub(super) fn device_at(staging: &Path) -> PathBuf {
    staging.join(DEVICE)
}

/// Mounts the share, or logs in, and mounts the filesystem of the disk or shows the disk itself.
pub(super) async fn stage(
    services: Arc<NodeServices>,
    request: NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse, Error> {
    let _guard = services.locks.lock(&request.volume_id)?;
    let capability = request.volume_capability.unwrap_or_default();
    let read_only = usage::is_read_only(&capability);
    let staging = Path::new(&request.staging_target_path);
    let mount = match capability.access_type {
        Some(AccessType::Mount(mount)) => Some(mount),
        _ => None,
    };
    match (Publication::try_from(&request.publish_context)?, mount) {
        (Publication::Nfs { share }, Some(mount)) => {
            let mount = filesystem("nfs", share.into(), staging, options(mount, read_only));
            ensure_mounted(&*services.shares, &mount).await?;
        }
        (Publication::Nfs { .. }, None) => {
            let text = "the volume is a share over NFS and cannot be used as a raw device";
            return Err(Error::Usage(text.to_owned()));
        }
        (Publication::Iscsi(disk), mount) => {
            // Until it is in use, so that nobody ends the session.
            let _session = services.initiator.lock(&disk.target).await;
            let device = services.connect(&disk).await?;
            match mount {
                Some(mount) => {
                    services
                        .mount_disk(&device, staging, mount, read_only)
                        .await?;
                }
                None => services.show(&device, &device_at(staging)).await?,
            }
            services.say(&request.volume_id, IscsiStatus::Active).await;
        }
    }
    Ok(NodeStageVolumeResponse {})
}

/// Unmounts, lets the disk go, and ends the session if nothing else needs it.
pub(super) async fn unstage(
    services: Arc<NodeServices>,
    request: NodeUnstageVolumeRequest,
) -> Result<NodeUnstageVolumeResponse, Error> {
    let _guard = services.locks.lock(&request.volume_id)?;
    let staging = Path::new(&request.staging_target_path);
    let disk = services.staged_disk(staging).await?;
    let mounter = &*services.mounter;
    for place in [device_at(staging), staging.to_owned()] {
        ensure_unmounted(mounter, &place, Unmount::Normal).await?;
    }
    remove_mount_point(&device_at(staging)).await?;
    match disk {
        Some(disk) => services.let_go(&disk).await?,
        // A share, or a disk that was unmounted by a call that did not come to its end.
        None => match services.registration.target(&request.volume_id).await {
            Some(target) => services.end_sessions(&target, None).await?,
            None => return Ok(NodeUnstageVolumeResponse {}),
        },
    }
    services
        .say(&request.volume_id, IscsiStatus::Disconnected)
        .await;
    Ok(NodeUnstageVolumeResponse {})
}

/// Notices that a disk is larger, and lets its filesystem grow.
pub(super) async fn expand(
    services: Arc<NodeServices>,
    request: NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, Error> {
    let _guard = services.locks.lock(&request.volume_id)?;
    let path = Path::new(&request.volume_path);
    let view = services.mounter.look(path).await?;
    let mount = view.mount().ok_or_else(|| not_mounted(path))?;
    let kind: Option<FsKind> = mount.kind().to_str().and_then(|it| it.parse().ok());
    let disk = services.disk_at(path).await?;
    let Some((disk, device)) = disk.as_ref().and_then(|it| Some((it, it.device()?))) else {
        // A share is as large as the array says.
        return Ok(NodeExpandVolumeResponse { capacity_bytes: 0 });
    };
    services.initiator.rescan(&disk.target).await?;
    if let Some(map) = &disk.map {
        services.multipath.resize(&map.name).await?;
    }
    let device = device.path.as_path();
    let bytes = services.stats.device_bytes(device).await?;
    let wanted = Range::from(request.capacity_range.as_ref()).required;
    if bytes < wanted {
        return Err(Error::NotExpanded { bytes, wanted });
    }
    if let (Some(kind), false) = (kind, mount.has_option("ro")) {
        grow(&*services.exec, &services.stats, device, kind, path).await?;
    }
    Ok(NodeExpandVolumeResponse {
        capacity_bytes: signed(bytes),
    })
}

/// Whether the filesystem of a device is mounted somewhere.
async fn is_mounted(table: &MountTable, device: &Path) -> bool {
    let device = device.to_owned();
    let number = blocking(move || Device::of_disk(&device)).await;
    number.is_some_and(|number| table.with_device(number).next().is_some())
}

fn options(mount: MountVolume, read_only: bool) -> Vec<String> {
    let mut options = mount.mount_flags;
    if read_only {
        options.push("ro".to_owned());
    }
    options
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

impl NodeServices {
    /// Mounts the filesystem of a disk, ready for use: formatted, checked and as large as the disk.
    async fn mount_disk(
        &self,
        device: &Path,
        target: &Path,
        mount: MountVolume,
        read_only: bool,
    ) -> Result<(), Error> {
        let (exec, stats) = (&*self.exec, &*self.stats);
        let kind: FsKind = match mount.fs_type.as_str() {
            "" => self.default_filesystem,
            name => name.parse()?,
        };
        if !is_mounted(&*self.mounter.table().await?, device).await
            && ensure_formatted(exec, stats, device, kind, &[]).await? == Outcome::Already
        {
            check(exec, device, kind).await?;
            grow_unmounted(exec, stats, device, kind).await?;
        }
        let mut options = options(mount, read_only);
        if kind == FsKind::Xfs {
            // A copy has the identity of its source, which may be mounted on this node as well.
            options.push("nouuid".to_owned());
        }
        let mount = filesystem(kind.name(), device.into(), target, options);
        let done = ensure_mounted(&*self.mounter, &mount).await?;
        if done == Outcome::Done && kind != FsKind::Ext4 && !read_only {
            grow(exec, stats, device, kind, target).await?;
        }
        Ok(())
    }

    async fn show(&self, device: &Path, target: &Path) -> Result<(), Error> {
        let bind = Bind {
            source: BindSource::Path(device.to_owned()),
            target: target.to_owned(),
            read_only: false,
        };
        ensure_bind(&*self.mounter, &bind).await?;
        Ok(())
    }

    /// The disk that is staged in a directory, if one is.
    async fn staged_disk(&self, staging: &Path) -> Result<Option<Disk>, Error> {
        match self.disk_at(&device_at(staging)).await? {
            Some(disk) => Ok(Some(disk)),
            None => self.disk_at(staging).await,
        }
    }
}
