//! `NodeGetVolumeStats`.

use std::path::Path;
use std::sync::Arc;

use stowage_api::causes::chain;
use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage,
};
use stowage_csi::sizes::signed;
use stowage_host::stat::Health;
use stowage_host::usage::{abnormal, condition, figures, healthy};

use super::disk::{Disk, is_device};
use super::{NodeServices, not_mounted};
use crate::driver::error::Error;

/// How full a volume is. A mount that hangs is reported as an abnormal condition, after a moment.
pub(super) async fn stats(
    services: Arc<NodeServices>,
    request: NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Error> {
    let path = Path::new(&request.volume_path);
    if !path.is_absolute() {
        return Err(not_mounted(path));
    }
    let view = services.mounter.look(path).await?;
    let mount = view.mount().ok_or_else(|| not_mounted(path))?;
    let disk = services.disk_at(path).await?;
    let degraded = disk.as_ref().and_then(degraded);
    if is_device(&mount) {
        let device = disk.as_ref().and_then(Disk::device);
        let device = device.ok_or_else(|| not_mounted(path))?;
        return Ok(NodeGetVolumeStatsResponse {
            usage: vec![VolumeUsage {
                total: signed(services.stats.device_bytes(&device.path).await?),
                unit: Unit::Bytes.into(),
                ..VolumeUsage::default()
            }],
            volume_condition: Some(degraded.unwrap_or_else(healthy)),
        });
    }
    let stats = &services.stats;
    Ok(match stats.usage(path).await {
        Ok(usage) => NodeGetVolumeStatsResponse {
            usage: vec![
                figures(usage.bytes, Unit::Bytes),
                figures(usage.inodes, Unit::Inodes),
            ],
            volume_condition: Some(match (stats.health(path).await, degraded) {
                (Health::Alive, Some(degraded)) => degraded,
                (health, _) => condition(health),
            }),
        },
        Err(error) => NodeGetVolumeStatsResponse {
            usage: Vec::new(),
            volume_condition: Some(abnormal(chain(&error))),
        },
    })
}

/// What is said of a disk that is not reached by all its paths: it works, and does not survive the loss of the rest.
fn degraded(disk: &Disk) -> Option<VolumeCondition> {
    let (all, working) = (disk.paths.len(), disk.map.as_ref()?.working);
    let message = || {
        format!("{working} of {all} paths to the disk work: look at `multipath -ll` on the node")
    };
    (working < all).then(|| abnormal(message()))
}
