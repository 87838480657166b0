//! `ControllerExpandVolume`.

use std::sync::Arc;

use stowage_csi::proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};

use crate::capacity;
use crate::driver::Driver;
use crate::error::Error;
use crate::state::VolumeRecord;
use crate::usage::{Access, Usage, UsageError};

/// Makes the image larger; what is in it, and the device in front of it, follow on the node.
pub(super) async fn expand(
    driver: Arc<Driver>,
    request: ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, Error> {
    let _guard = driver.locks.lock(&request.volume_id)?;
    let (image, record) = driver.claim_volume(&request.volume_id).await?;
    if let Some(capability) = &request.volume_capability {
        let usage = Usage::try_from(capability)?;
        check_access(&record, &usage)?;
    }
    let range = request.capacity_range.as_ref().into();
    let bytes = capacity::grow(record.bytes, range, driver.config.max_volume_bytes)?;
    let answer = ControllerExpandVolumeResponse {
        capacity_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        node_expansion_required: true,
    };
    if bytes == record.bytes {
        return Ok(answer);
    }
    if record.access == Access::Filesystem && bytes < record.filesystem.growth_minimum_bytes() {
        return Err(Error::GrowthTooSmall { bytes });
    }
    let more = bytes - record.bytes;
    driver.check_space(more).await?;
    let reserved = driver.ledger.reserve(more)?;
    let record = VolumeRecord { bytes, ..record };
    driver.grow(image, record).await?;
    reserved.keep();
    Ok(answer)
}

/// A volume is used in the form it was made in.
pub(crate) fn check_access(record: &VolumeRecord, usage: &Usage) -> Result<(), UsageError> {
    let other = |wanted: String| UsageError::OtherAccess {
        is: record.access,
        wanted,
    };
    if record.access != usage.access {
        return Err(other(usage.access.name().to_owned()));
    }
    match usage.filesystem {
        Some(kind) if kind != record.filesystem => Err(other(format!(
            "{kind}: it was made as {}",
            record.filesystem
        ))),
        _ => Ok(()),
    }
}
