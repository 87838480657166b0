//! `NodeUnpublishVolume`.

use std::path::Path;

use stowage_csi::proto::csi::{NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse};
use stowage_host::mount::{Unmount, ensure_unmounted, remove_mount_point};

use crate::driver::Driver;
use crate::driver::mounts::is_weka;
use crate::error::Error;

/// Takes the volume away from one pod. Neither the handle nor the cluster is looked at: whatever mount of Weka is at the
/// target was put there for this pod, also by another driver. The mount itself is not touched: it may hang.
pub(super) async fn unpublish(
    driver: &Driver,
    request: NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse, Error> {
    let target = Path::new(&request.target_path);
    let _guard = driver.locks.lock(&request.volume_id)?;
    let view = driver.mounter.look(target).await?;
    if let Some(mount) = view.mount() {
        if !is_weka(&mount) {
            return Err(Error::ForeignMount {
                path: target.to_owned(),
                kind: mount.kind().to_string_lossy().into_owned(),
            });
        }
        ensure_unmounted(&*driver.mounter, target, Unmount::Normal).await?;
    }
    remove_mount_point(target).await?;
    driver.metrics.volumes.forget(target);
    driver.names.forget(target);
    Ok(NodeUnpublishVolumeResponse {})
}
