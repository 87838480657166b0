//! `NodeUnpublishVolume`.

use std::path::Path;
use std::sync::Arc;

use stowage_csi::proto::csi::{NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse};
use stowage_host::blocking;
use stowage_host::mount::{Unmount, ensure_unmounted, remove_mount_point};

use super::target::Found;
use crate::driver::Driver;
use crate::error::Error;
use crate::state::{Area, Image};

/// Takes the volume away from one pod. Inline volumes end here.
pub(super) async fn unpublish(
    driver: Arc<Driver>,
    request: NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse, Error> {
    let target = Path::new(&request.target_path);
    let place = Driver::place(&request.volume_id);
    let _guard = driver.locks.lock(&request.volume_id)?;
    let image = driver.lock_image(&place).await?;
    take_away(&driver, image.as_ref(), target, &request.volume_id).await?;
    remove_mount_point(target).await?;
    if place.area == Area::Inline
        && let Some(image) = image
    {
        blocking(move || image.discard()).await?;
    }
    Ok(NodeUnpublishVolumeResponse {})
}

async fn take_away(
    driver: &Driver,
    image: Option<&Image>,
    target: &Path,
    id: &str,
) -> Result<(), Error> {
    let mounter = &*driver.host.mounter;
    let Some(image) = image else {
        // Without the image nobody can tell whether the mount is ours.
        return match mounter.look(target).await?.mount() {
            None => Ok(()),
            Some(_) => Err(Error::VolumeMissing(id.to_owned())),
        };
    };
    match driver.found_at(target, image.backing()?).await? {
        Found::Nothing => Ok(()),
        Found::Foreign => Err(Error::NotMounted {
            id: id.to_owned(),
            path: target.to_owned(),
        }),
        Found::Filesystem { .. } => {
            ensure_unmounted(mounter, target, Unmount::Normal).await?;
            Ok(())
        }
        Found::Device { number, read_only } => {
            driver.host.write_out(image).await?;
            ensure_unmounted(mounter, target, Unmount::Normal).await?;
            if read_only {
                release_read_only(driver, image, number).await?;
            }
            Ok(())
        }
    }
}

/// The device for reading is only there for targets; the other one stays until the volume is unstaged.
async fn release_read_only(driver: &Driver, image: &Image, number: u32) -> Result<(), Error> {
    let (backing, table) = (image.backing()?, driver.host.mounts().await?);
    let host = driver.host.clone();
    let used = blocking(move || {
        let mut mounts = table.iter();
        mounts.any(|mount| {
            crate::device::bound_loop(&mount) == Some(number) && host.shows(&mount, backing)
        })
    });
    if used.await || driver.others_need_devices(image).await? {
        return Ok(());
    }
    let devices = driver.host.devices(image).await?;
    let staged = devices.iter().any(|device| device.number() != number);
    drop(devices);
    // Staged for reading: then this is the one that staging made.
    if staged {
        let this = move |device: &stowage_host::loopdev::LoopDevice| device.number() == number;
        driver.host.detach(image, this).await?;
    }
    Ok(())
}
