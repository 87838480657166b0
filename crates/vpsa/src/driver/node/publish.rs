//! `NodePublishVolume` and `NodeUnpublishVolume`: once per pod.

use std::path::Path;
use std::sync::Arc;

use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};
use stowage_host::mount::{
    Bind, BindSource, Unmount, ensure_bind, ensure_unmounted, remove_mount_point,
};

use super::NodeServices;
use super::stage::device_at;
use crate::driver::error::Error;
use crate::driver::usage;

/// Shows a staged volume at the target of one pod.
pub(super) async fn publish(
    services: Arc<NodeServices>,
    request: NodePublishVolumeRequest,
) -> Result<NodePublishVolumeResponse, Error> {
    let _guard = services.locks.lock(&request.volume_id)?;
    let capability = request.volume_capability.unwrap_or_default();
    let staging = Path::new(&request.staging_target_path);
    let source = match capability.access_type {
        Some(AccessType::Block(_)) => device_at(staging),
        _ => staging.to_owned(),
    };
    let view = services.mounter.look(&source).await?;
    let Some(staged) = view.mount() else {
        return Err(Error::NotStaged {
            volume: request.volume_id,
            path: staging.to_owned(),
        });
    };
    let bind = Bind {
        source: BindSource::Path(source),
        target: request.target_path.into(),
        // What is staged for reading is only shown so, whoever asks for more.
        read_only: request.readonly || usage::is_read_only(&capability) || staged.has_option("ro"),
    };
    check_mode(&services, &bind).await?;
    if usage::has_single_writer(&capability) {
        check_single(&services, &bind, staging).await?;
    }
    ensure_bind(&*services.mounter, &bind).await?;
    Ok(NodePublishVolumeResponse {})
}

/// What is published already stays as it is.
async fn check_mode(services: &NodeServices, bind: &Bind) -> Result<(), Error> {
    let view = services.mounter.look(&bind.target).await?;
    match view.mount() {
        Some(mount) if bind.read_only && !mount.has_option("ro") => Err(Error::Incompatible {
            kind: "the mount at",
            name: bind.target.display().to_string(),
            difference: "another mode: writable".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A volume for a single writer is at one target only.
async fn check_single(services: &NodeServices, bind: &Bind, staging: &Path) -> Result<(), Error> {
    let mounter = &services.mounter;
    let shown = mounter.identify(&bind.source).await?;
    // By the names that the table has them under.
    let view = mounter.look(&bind.target).await?;
    let staging = mounter.look(staging).await?.point;
    let mut others = view.table.iter().filter(|mount| {
        let is_same = mount.device() == shown.device && mount.shown() == shown.root;
        is_same && mount.point() != view.point && !mount.point().starts_with(&staging)
    });
    match others.next() {
        None => Ok(()),
        Some(other) => Err(Error::Precondition(format!(
            "the volume is for a single writer and published at {} already",
            other.point().display()
        ))),
    }
}

/// Takes a volume away from one pod.
pub(super) async fn unpublish(
    services: Arc<NodeServices>,
    request: NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse, Error> {
    let _guard = services.locks.lock(&request.volume_id)?;
    let target = Path::new(&request.target_path);
    services.write_out_shown(&request.volume_id, target).await?;
    ensure_unmounted(&*services.mounter, target, Unmount::Normal).await?;
    remove_mount_point(target).await?;
    Ok(NodeUnpublishVolumeResponse {})
}
