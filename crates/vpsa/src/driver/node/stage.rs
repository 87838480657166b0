//! `NodeStageVolume`, `NodeUnstageVolume`, `NodeExpandVolume`: once per volume, before the first pod and after the last.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_api::vpsa::IscsiStatus;
use stowage_csi::locks::VolumeGuard;
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use stowage_csi::sizes::{Range, signed};
use stowage_host::filesystem::{FsKind, grow};
use stowage_host::mount::{
    Bind, BindSource, Unmount, ensure_bind, ensure_unmounted, remove_mount_point,
};

use super::attached::Attached;
use super::disk::is_on_disk;
use super::filesystem::Way;
use super::let_go::Going;
use super::{NodeServices, not_mounted};
use crate::driver::error::Error;
use crate::driver::publication::{Iscsi, Publication};
use crate::driver::usage;

/// The name of a raw device in its staging directory.
const DEVICE: &str = "device";

/// Where a raw device is staged.
pub(super) fn device_at(staging: &Path) -> PathBuf {
    staging.join(DEVICE)
}

/// Mounts the share, or logs in, and mounts the filesystem of the disk or shows the disk itself: the one that is attached now,
/// whatever the controller said when it published the volume.
pub(super) async fn stage(
    services: Arc<NodeServices>,
    request: NodeStageVolumeRequest,
) -> Result<NodeStageVolumeResponse, Error> {
    let guard = services.locks.lock(&request.volume_id)?;
    services.lasting.heard(&request.volume_id)?;
    let capability = request.volume_capability.unwrap_or_default();
    let read_only = usage::is_read_only(&capability);
    let staging = Path::new(&request.staging_target_path);
    let mount = match capability.access_type {
        Some(AccessType::Mount(mount)) => Some(mount),
        _ => None,
    };
    match (Publication::try_from(&request.publish_context)?, mount) {
        (Publication::Nfs(share), Some(mount)) => {
            let read_only = read_only || share.read_only;
            services
                .mount_share(share.path, staging, mount, read_only)
                .await?;
        }
        (Publication::Nfs(_), None) => {
            let text = "the volume is a share over NFS and cannot be used as a raw device";
            return Err(Error::Usage(text.to_owned()));
        }
        (Publication::Iscsi(disk), mount) => {
            let staging = staging.to_owned();
            let way = Way {
                staging,
                mount,
                read_only,
            };
            stage_disk(services, guard, &request.volume_id, disk, way).await?;
        }
    }
    Ok(NodeStageVolumeResponse {})
}

/// Logs in within the call; what takes its time on the disk goes on without it.
async fn stage_disk(
    services: Arc<NodeServices>,
    guard: VolumeGuard,
    volume: &str,
    disk: Iscsi,
    way: Way,
) -> Result<(), Error> {
    let Attached {
        target,
        lun,
        read_only,
        initiator,
    } = services.attached(volume).await?;
    let disk = Iscsi {
        target,
        lun,
        ..disk
    };
    let read_only = way.read_only || read_only;
    let targets = &services.initiator.targets;
    let changing = targets.change(&disk.target).await;
    // Until it is in use, so that nobody ends the session.
    let preparing = targets.prepare(&disk.target, disk.lun);
    let preparing = preparing.ok_or_else(|| being_prepared(&disk))?;
    let device = services
        .connect(&disk, initiator.as_deref(), &way.staging)
        .await?;
    drop(changing);
    let (lasting, named) = (services.lasting.clone(), volume.to_owned());
    let work = async move {
        let _preparing = preparing;
        // Before it is in use: whoever detaches it must know.
        services.registration.say_in_use(&named).await?;
        match way.mount {
            Some(mount) => {
                services
                    .mount_disk(&device, &way.staging, mount, read_only)
                    .await?;
            }
            None => services.show(&device, &device_at(&way.staging)).await?,
        }
        Ok(())
    };
    lasting.run(volume, guard, work).await
}

/// Two volumes have the same disk for a moment, while disks of this node are attached anew.
fn being_prepared(disk: &Iscsi) -> Error {
    Error::Unattached(format!(
        "disk {} of {} is being made ready for another volume",
        disk.lun, disk.target
    ))
}

/// Unmounts, lets the disk go, and ends the session if nothing else needs it.
pub(super) async fn unstage(
    services: Arc<NodeServices>,
    request: NodeUnstageVolumeRequest,
) -> Result<NodeUnstageVolumeResponse, Error> {
    let _guard = services.locks.lock(&request.volume_id)?;
    // Whoever stages it next begins anew.
    let _ = services.lasting.heard(&request.volume_id);
    let staging = Path::new(&request.staging_target_path);
    let mounter = &*services.mounter;
    let device = device_at(staging);
    // Nothing is looked for in a share: one that this node has lost does not answer.
    let place = if mounter.is_mounted(staging).await? {
        staging
    } else {
        &device
    };
    let disk = services.disk_at(place).await?;
    services.write_out_shown(&request.volume_id, place).await?;
    ensure_unmounted(mounter, place, Unmount::Normal).await?;
    remove_mount_point(&device).await?;
    let disk = match disk {
        Some(disk) => Some((disk.target, disk.lun)),
        // A share, or a disk that was unmounted by a call that did not come to its end.
        None => services.last_place(&request.volume_id).await,
    };
    if let Some((target, lun)) = disk {
        let going = Going {
            volume: &request.volume_id,
            lun,
        };
        services.let_go(&target, Some(going)).await?;
        let disconnected = IscsiStatus::Disconnected;
        services.say(&request.volume_id, disconnected).await;
    }
    Ok(NodeUnstageVolumeResponse {})
}

/// Notices that a disk is larger, and lets its filesystem grow.
pub(super) async fn expand(
    services: Arc<NodeServices>,
    request: NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, Error> {
    let guard = services.locks.lock(&request.volume_id)?;
    services.lasting.heard(&request.volume_id)?;
    let path = Path::new(&request.volume_path);
    let view = services.mounter.look(path).await?;
    let mount = view.mount().ok_or_else(|| not_mounted(path))?;
    let kind: Option<FsKind> = mount.kind().to_str().and_then(|it| it.parse().ok());
    let disk = services.disk_at(path).await?;
    let Some((disk, device)) = disk.as_ref().and_then(|it| Some((it, it.device()?))) else {
        if is_on_disk(&mount) {
            return Err(Error::UnknownDisk(path.to_owned()));
        }
        // A share is as large as the array says.
        return Ok(NodeExpandVolumeResponse { capacity_bytes: 0 });
    };
    services.initiator.rescan(&disk.target).await?;
    if let Some(map) = &disk.map {
        services.multipath.resize(&map.name).await?;
    }
    let device = device.path.clone();
    let bytes = services.stats.device_bytes(&device).await?;
    let wanted = Range::from(request.capacity_range.as_ref()).required;
    if bytes < wanted {
        return Err(Error::NotExpanded { bytes, wanted });
    }
    if let (Some(kind), false) = (kind, mount.has_option("ro")) {
        let (lasting, path) = (services.lasting.clone(), path.to_owned());
        let work = async move {
            grow(&*services.exec, &services.stats, &device, kind, &path).await?;
            Ok(())
        };
        lasting.run(&request.volume_id, guard, work).await?;
    }
    Ok(NodeExpandVolumeResponse {
        capacity_bytes: signed(bytes),
    })
}

impl NodeServices {
    async fn show(&self, device: &Path, target: &Path) -> Result<(), Error> {
        let bind = Bind {
            source: BindSource::Path(device.to_owned()),
            target: target.to_owned(),
            read_only: false,
        };
        ensure_bind(&*self.mounter, &bind).await?;
        Ok(())
    }
}
