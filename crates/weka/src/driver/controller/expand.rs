//! `ControllerExpandVolume`.

use stowage_csi::proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use stowage_csi::sizes::{Range, signed};

use super::volume::Volume;
use crate::capacity::{choose, grow};
use crate::driver::Driver;
use crate::driver::filesystem::{Managed, WekaFilesystem};
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
    let mut volume = Volume::open(driver, &request.volume_id, &request.secrets, deadline).await?;
    let bytes = match volume.existing.size() {
        Some(size) => grow(size.bytes, range)?,
        None => choose(range),
    };
    let fits = |filesystem: &WekaFilesystem| filesystem.check_fits(bytes);
    volume.filesystem.require(fits).await?;
    resize(driver, &volume, bytes, deadline).await?;
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: signed(bytes),
        node_expansion_required: false,
    })
}

/// Writes the new size where the volume has its size.
async fn resize(
    driver: &Driver,
    volume: &Volume,
    bytes: u64,
    deadline: Deadline,
) -> Result<(), Error> {
    let existing = &volume.existing;
    match (&existing.recorded, volume.filesystem.quotas()) {
        (Recorded::Quota(quota), Some(managed)) => {
            let limits = quota.limits();
            managed
                .resize_quota(existing.inode, limits, limits.grown(bytes))
                .await
        }
        (Recorded::Attribute(_), Some(managed)) => {
            if limit(managed, volume, bytes).await? {
                return Ok(());
            }
            volume.write_size(driver, bytes, deadline).await
        }
        (Recorded::Attribute(_) | Recorded::Quota(_), _) => {
            volume.write_size(driver, bytes, deadline).await
        }
        // What a person made has no size, here or on the array; what we made half-way has none to grow from.
        (Recorded::Nowhere, _) => match volume.handle.origin(&driver.config.dynamic_path) {
            Origin::Dynamic => Err(Error::NoQuota(volume.handle.to_string())),
            Origin::Static => Ok(()),
        },
    }
}

/// Gives a volume its first quota. False if the array gives none to a directory with files in it.
async fn limit(managed: &Managed, volume: &Volume, bytes: u64) -> Result<bool, Error> {
    let size = Size {
        bytes,
        enforcement: Enforcement::default(),
    };
    let inode = volume.existing.inode;
    match managed
        .api
        .set_quota(&managed.filesystem, inode, size.into())
        .await
    {
        Ok(()) => Ok(true),
        Err(error @ ApiError::Refused { .. }) => {
            tracing::warn!(%error, volume_id = %volume.handle, "Cannot set a quota for the volume; its size stays advisory.");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
