//! `ControllerModifyVolume`.

use stowage_csi::proto::csi::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};

use super::volume::Volume;
use crate::driver::Driver;
use crate::driver::volume::Recorded;
use crate::error::Error;
use crate::parameters;
use crate::quota::{Limits, Size};
use crate::rest::Deadline;

/// Turns a hard limit into a soft one and back. The size stays.
pub(super) async fn modify(
    driver: &Driver,
    request: ControllerModifyVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerModifyVolumeResponse, Error> {
    let wanted = parameters::enforcement(&request.mutable_parameters)?;
    let volume = Volume::open(driver, &request.volume_id, &request.secrets, deadline).await?;
    let Some(enforcement) = wanted else {
        return Ok(ControllerModifyVolumeResponse {});
    };
    let (Recorded::Quota(quota), Some(managed)) =
        (&volume.existing.recorded, volume.filesystem.quotas())
    else {
        return Err(Error::NoQuota(request.volume_id));
    };
    let known = quota.limits();
    let size = Size::from(known);
    let wanted = Size {
        enforcement,
        ..size
    };
    // What is so already keeps its limits, also those that we would have set otherwise.
    let wanted = if wanted == size {
        known
    } else {
        Limits {
            grace_seconds: grace_seconds(driver, &request.volume_id, known),
            ..wanted.into()
        }
    };
    managed
        .resize_quota(volume.existing.inode, known, wanted)
        .await?;
    Ok(ControllerModifyVolumeResponse {})
}

/// The grace period of a volume, which a hard limit has no use for and keeps for the next soft one. That of a volume that was
/// made with a hard one is known to Kubernetes only.
fn grace_seconds(driver: &Driver, id: &str, known: Limits) -> u64 {
    let inventory = driver.inventory.iter();
    let volumes = inventory.flat_map(|inventory| inventory.with_handle(id));
    let mut of_class = volumes.map(|volume| volume.grace_seconds());
    match known.grace_seconds {
        0 => of_class.next().unwrap_or_default(),
        kept => kept,
    }
}
