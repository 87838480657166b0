//! `DeleteVolume`.

use std::sync::Arc;
use std::time::Duration;

use stowage_csi::proto::csi::{DeleteVolumeRequest, DeleteVolumeResponse};
use stowage_host::blocking;

use crate::device::is_mounted;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Id, Kind};
use crate::state::{Area, Image, Stage, StateError, VolumeRecord};

/// How often and how long apart a device is looked at again that is about to go: udev may have it open for a moment.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(30);

/// Removes a volume that nobody uses.
pub(super) async fn delete_volume(
    driver: Arc<Driver>,
    request: DeleteVolumeRequest,
) -> Result<DeleteVolumeResponse, Error> {
    let text = &request.volume_id;
    // An id that we never gave out names no volume of ours.
    let Some(id) = driver.local(Kind::Volume, text)? else {
        return Ok(DeleteVolumeResponse {});
    };
    let _guard = driver.locks.lock(text)?;
    let record = driver.read::<VolumeRecord>(&id).await?;
    let Some(image) = lock(&driver, &id, record.is_some()).await? else {
        return Ok(DeleteVolumeResponse {});
    };
    let removable = match &record {
        Some(record) => {
            check_unused(&driver, &image, record).await?;
            true
        }
        // Left by a deletion that was interrupted; anything else without a record is not ours to remove.
        None => image.stage()? == Stage::Unfinished,
    };
    if removable {
        let store = driver.store.clone();
        blocking(move || {
            store.forget_staged(image.key())?;
            store.remove(Area::Volumes, image)
        })
        .await?;
        driver
            .ledger
            .release(record.map_or(0, |record| record.bytes));
    }
    Ok(DeleteVolumeResponse {})
}

/// The image, which is made again if only the record is left: the lock is on it.
async fn lock(driver: &Driver, id: &Id, has_record: bool) -> Result<Option<Image>, StateError> {
    let (store, key) = (driver.store.clone(), id.key.clone());
    blocking(move || {
        if has_record {
            return store.lock_or_make(Area::Volumes, &key).map(Some);
        }
        store.lock(Area::Volumes, &key)
    })
    .await
}

async fn check_unused(driver: &Driver, image: &Image, record: &VolumeRecord) -> Result<(), Error> {
    let in_use = |by: String| Error::InUse {
        id: record.id.clone(),
        by,
    };
    if let Some(node) = record.attached.keys().next() {
        return Err(in_use(format!("it is attached to node `{node}`")));
    }
    for attempt in 1.. {
        let devices = driver.host.devices(image).await?;
        let Some(device) = devices.first() else {
            break;
        };
        let going = device.status()?.is_none_or(|status| status.autoclear);
        if !going || is_mounted(device).await? || attempt == ATTEMPTS {
            let device = device.path().display();
            return Err(in_use(format!(
                "it is attached as {device}; unstage it first"
            )));
        }
        // Our own descriptor keeps it, too.
        drop(devices);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
