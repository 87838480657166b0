//! `ControllerModifyVolume`.

use std::sync::Arc;

use stowage_csi::proto::csi::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};

use crate::driver::Driver;
use crate::error::Error;
use crate::mutable::Mutable;
use crate::state::VolumeRecord;

/// Changes the devices of the volume, if it has any, and then its record, which decides for devices to come. Who
/// dies in between is asked again.
pub(super) async fn modify(
    driver: Arc<Driver>,
    request: ControllerModifyVolumeRequest,
) -> Result<ControllerModifyVolumeResponse, Error> {
    let _guard = driver.locks.lock(&request.volume_id)?;
    let (image, record) = driver.claim_volume(&request.volume_id).await?;
    let mutable = Mutable::try_from(&request.mutable_parameters)?;
    if let Some(direct_io) = mutable.direct_io {
        driver.host.set_direct_io(&image, direct_io).await?;
        if record.direct_io != direct_io {
            let record = VolumeRecord {
                direct_io,
                ..record
            };
            driver.write(image, record).await?;
        }
    }
    Ok(ControllerModifyVolumeResponse {})
}
