//! A volume goes.

use stowage_api::vpsa::Volume;
use stowage_csi::proto::csi::{DeleteVolumeRequest, DeleteVolumeResponse};
use stowage_rest::Deadline;

use super::Services;
use crate::driver::error::Error;
use crate::vsc::cluster::of_volume;

/// Has the object deleted, and waits until the control plane has deleted the volume.
pub(super) async fn delete(
    services: &Services,
    request: DeleteVolumeRequest,
    deadline: Deadline,
) -> Result<DeleteVolumeResponse, Error> {
    let name = &request.volume_id;
    let _guard = services.locks.lock(name)?;
    let (cluster, group) = (&services.objects.cluster, of_volume(name));
    // It would wait for them, and nobody could change their mind any more.
    let attachments = cluster.attachments.store().count_in_group(&group);
    let snapshots = cluster.snapshots.store().count_in_group(&group);
    if attachments > 0 || snapshots > 0 {
        return Err(Error::Precondition(format!(
            "volume `{name}` has {attachments} attachments and {snapshots} snapshots: they have to go first"
        )));
    }
    services.objects.delete::<Volume>(name, deadline).await?;
    Ok(DeleteVolumeResponse {})
}
