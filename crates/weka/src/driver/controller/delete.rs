//! `DeleteVolume`.

use std::sync::Arc;

use stowage_csi::proto::csi::{DeleteVolumeRequest, DeleteVolumeResponse};
use stowage_host::beneath::Root;

use super::inspect::hidden;
use crate::driver::{Driver, directory, directory_handle};
use crate::error::Error;
use crate::handle::Origin;
use crate::rest::Deadline;

/// Moves the volume into the trash, which is quick; its data is removed in the background.
pub(super) async fn delete(
    driver: &Arc<Driver>,
    request: DeleteVolumeRequest,
    deadline: Deadline,
) -> Result<DeleteVolumeResponse, Error> {
    let handle = match directory_handle(&request.volume_id) {
        Ok(handle) => handle,
        // Nobody ever made a volume with such an id.
        Err(Error::Handle(_)) => return Ok(DeleteVolumeResponse {}),
        Err(error) => return Err(error),
    };
    if handle.origin(&driver.config.dynamic_path) != Origin::Dynamic {
        return Err(Error::NotOurs(request.volume_id));
    }
    let guard = Arc::new(driver.locks.lock(handle.as_str())?);
    let filesystem = driver
        .filesystem(&request.secrets, handle.filesystem(), deadline)
        .await
        .map_err(|error| hidden(error, &handle))?;
    let path = handle.path();
    let place = path.clone();
    let work = move |root: &Root| directory::move_to_trash(root, &place);
    let moved = driver
        .within(&filesystem, Some(&guard), deadline, work)
        .await?;
    if moved {
        driver.empty_trash(&filesystem);
    } else {
        filesystem.confirm_missing(&path).await?;
        driver.sweep_once(&filesystem);
    }
    Ok(DeleteVolumeResponse {})
}
