//! `ControllerModifyVolume`.

use std::sync::Arc;

use stowage_csi::proto::csi::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};

use crate::driver::volume::Recorded;
use crate::driver::{Driver, existing_handle};
use crate::error::Error;
use crate::parameters;
use crate::quota::Size;
use crate::rest::Deadline;

/// Turns a hard limit into a soft one and back. The size stays.
pub(super) async fn modify(
    driver: &Driver,
    request: ControllerModifyVolumeRequest,
    deadline: Deadline,
) -> Result<ControllerModifyVolumeResponse, Error> {
    let wanted = parameters::enforcement(&request.mutable_parameters)?;
    let handle = existing_handle(&request.volume_id)?;
    let guard = Arc::new(driver.locks.lock(handle.as_str())?);
    let home = driver
        .home(&request.secrets, handle.filesystem(), deadline)
        .await
        .map_err(|error| super::inspect::missing(error, &handle))?;
    home.check_may_write("set the quota of a directory")?;
    let existing = driver
        .required(&home, &handle, Some(&guard), deadline)
        .await?;
    let Some(enforcement) = wanted else {
        return Ok(ControllerModifyVolumeResponse {});
    };
    let (Recorded::Quota(quota), Some(managed)) = (&existing.recorded, home.quotas()) else {
        return Err(Error::NoQuota(request.volume_id));
    };
    let size = Size::from(quota.limits());
    if size.enforcement == enforcement {
        managed
            .api
            .await_quota(&managed.filesystem, existing.inode)
            .await?;
    } else {
        let size = Size {
            enforcement,
            ..size
        };
        managed
            .api
            .set_quota(&managed.filesystem, existing.inode, size)
            .await?;
    }
    Ok(ControllerModifyVolumeResponse {})
}
