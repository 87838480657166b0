//! `ControllerExpandVolume`.

use stowage_csi::proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use stowage_csi::sizes::{Range, signed};

use super::volume::Volume;
use crate::capacity::{choose, grow};
use crate::driver::Driver;
use crate::driver::volume::Recorded;
use crate::error::Error;
use crate::handle::Origin;
use crate::quota::{Enforcement, Size};
use crate::rest::{ApiError, Deadline};

/// Makes a volume larger. Who is refused at its end and who is not stays as it is, but for volumes from before there were
/// quotas: they get one.
pub(super) async fn expand(
    driver: &Driver,
    request: ControllerExpandVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerExpandVolumeResponse, Error> {
    let range: Range = request.capacity_range.as_ref().into();
    super::inspect::check_mounts(request.volume_capability.as_slice())?;
    let Volume {
        handle,
        guard,
        mut filesystem,
        existing,
    } = Volume::open(driver, &request.volume_id, &request.secrets, deadline).await?;
    let bytes = match existing.size() {
        Some(size) => grow(size.bytes, range)?,
        None => choose(range),
    };
    filesystem
        .require(|filesystem| filesystem.check_fits(bytes))
        .await?;
    match (&existing.recorded, filesystem.quotas()) {
        (Recorded::Quota(quota), Some(managed)) => {
            let size = Size::from(quota.limits());
            let wanted = Size { bytes, ..size };
            managed.resize_quota(existing.inode, size, wanted).await?;
        }
        (Recorded::Attribute(_), Some(managed)) => {
            let size = Size {
                bytes,
                enforcement: Enforcement::default(),
            };
            let limited = managed
                .api
                .set_quota(&managed.filesystem, existing.inode, size);
            match limited.await {
                Ok(()) => {}
                // The array gives none to a directory with files in it.
                Err(error @ ApiError::Refused { .. }) => {
                    tracing::warn!(%error, volume_id = %handle, "Cannot set a quota for the volume; its size stays advisory.");
                    driver
                        .record(&filesystem, &handle, bytes, Some(&guard), deadline)
                        .await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        (Recorded::Attribute(_) | Recorded::Quota(_), _) => {
            driver
                .record(&filesystem, &handle, bytes, Some(&guard), deadline)
                .await?;
        }
        (Recorded::Nowhere, _) => {
            // What a person made has no size, here or on the array; what we made half-way has none to grow from.
            if handle.origin(&driver.config.dynamic_path) == Origin::Dynamic {
                return Err(Error::NoQuota(request.volume_id));
            }
        }
    }
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: signed(bytes),
        node_expansion_required: false,
    })
}
