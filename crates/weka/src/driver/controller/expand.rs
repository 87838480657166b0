//! `ControllerExpandVolume`.

use stowage_csi::proto::csi::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use stowage_csi::sizes::{Range, signed};

use super::volume::Volume;
use crate::capacity::{choose, grow};
use crate::driver::Driver;
use crate::driver::volume::Recorded;
use crate::error::Error;
use crate::handle::{Backing, Origin};
use crate::quota::{Enforcement, Size};
use crate::rest::Deadline;

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
    let rules = &driver.config.volumes;
    // A filesystem that is the volume grows with it.
    let may_grow = rules.enlarge_filesystems || volume.handle.backing() == Backing::Filesystem;
    let room = driver.make_room(&mut volume.filesystem, bytes, may_grow);
    room.await?;
    let handle = volume.handle.clone();
    let reserved = driver.reserve(&mut volume.filesystem, &handle, bytes);
    let reserved = reserved.await?;
    resize(driver, &volume, bytes, deadline).await?;
    if let Some(reserved) = reserved {
        reserved.keep();
    }
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
        (Recorded::Attribute(_), Some(_)) => {
            let size = Size {
                bytes,
                enforcement: Enforcement::default(),
            };
            let (handle, inode) = (&volume.handle, existing.inode);
            if volume
                .filesystem
                .enforce(handle, inode, size.into())
                .await?
            {
                return Ok(());
            }
            volume.write_size(driver, bytes, deadline).await
        }
        (Recorded::Attribute(_) | Recorded::Quota(_), _) => {
            volume.write_size(driver, bytes, deadline).await
        }
        // What a person made has no size, here or on the array; what we made half-way has none to grow from.
        (Recorded::Nowhere, _) => match volume.handle.origin(&driver.config.dynamic_paths) {
            Origin::Dynamic => Err(Error::NoQuota(volume.handle.to_string())),
            Origin::Static => Ok(()),
        },
    }
}
