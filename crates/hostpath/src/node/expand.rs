//! `NodeExpandVolume`.

use std::path::Path;
use std::sync::Arc;

use stowage_csi::proto::csi::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};
use stowage_csi::sizes::Range;
use stowage_host::blocking;
use stowage_host::filesystem::grow;
use stowage_host::loopdev::{LoopDevice, LoopError};

use super::target::Found;
use crate::driver::Driver;
use crate::error::Error;
use crate::state::{Image, VolumeRecord};

/// Makes device and filesystem as large as the image, while they are in use.
pub(super) async fn expand(
    driver: Arc<Driver>,
    request: NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, Error> {
    let path = Path::new(&request.volume_path);
    // Before the lock, for inline volumes: they have the size they were made with.
    let record = driver.volume(&request.volume_id).await?;
    let not_there = || Error::NotMounted {
        id: request.volume_id.clone(),
        path: path.to_owned(),
    };
    if !path.is_absolute() {
        return Err(not_there());
    }
    let _guard = driver.locks.lock(&request.volume_id)?;
    let (image, record) = match driver.claim_volume(&request.volume_id).await {
        Err(Error::VolumeMissing(_)) => return Err(Error::VolumeMissing(record.id)),
        claimed => claimed?,
    };
    let range = Range::from(request.capacity_range.as_ref());
    if range.required > record.bytes {
        return Err(Error::NotExpanded {
            actual: record.bytes,
            wanted: range.required,
        });
    }
    match driver.found_at(path, image.backing()?).await? {
        Found::Device { .. } => refresh(&driver, &image).await?,
        Found::Filesystem { read_only } => {
            refresh(&driver, &image).await?;
            // What cannot be written cannot grow; it does so when it is staged for writing.
            if !read_only {
                grow_filesystem(&driver, &image, &record, path).await?;
            }
        }
        Found::Nothing | Found::Foreign => return Err(not_there()),
    }
    Ok(NodeExpandVolumeResponse {
        capacity_bytes: i64::try_from(record.bytes).unwrap_or(i64::MAX),
    })
}

async fn refresh(driver: &Driver, image: &Image) -> Result<(), Error> {
    let devices = driver.host.devices(image).await?;
    let refreshed = blocking(move || -> Result<(), LoopError> {
        devices.iter().try_for_each(LoopDevice::refresh_size)
    });
    Ok(refreshed.await?)
}

async fn grow_filesystem(
    driver: &Driver,
    image: &Image,
    record: &VolumeRecord,
    path: &Path,
) -> Result<(), Error> {
    let host = &driver.host;
    for device in host.devices(image).await? {
        let kind = record.filesystem;
        grow(&*host.exec, &host.stats, device.path(), kind, path).await?;
    }
    Ok(())
}
