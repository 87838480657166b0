//! `NodeGetVolumeStats`.

use std::path::Path;
use std::sync::Arc;

use stowage_api::causes::chain;
use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage};
use stowage_csi::sizes::signed;
use stowage_host::usage::{abnormal, condition, figures, healthy};

use super::iscsi::is_device;
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
    if is_device(&mount) {
        let device = services.device_of(path).await?;
        let device = device.ok_or_else(|| not_mounted(path))?;
        return Ok(NodeGetVolumeStatsResponse {
            usage: vec![VolumeUsage {
                total: signed(services.stats.device_bytes(&device).await?),
                unit: Unit::Bytes.into(),
                ..VolumeUsage::default()
            }],
            volume_condition: Some(healthy()),
        });
    }
    let stats = &services.stats;
    Ok(match stats.usage(path).await {
        Ok(usage) => NodeGetVolumeStatsResponse {
            usage: vec![
                figures(usage.bytes, Unit::Bytes),
                figures(usage.inodes, Unit::Inodes),
            ],
            volume_condition: Some(condition(stats.health(path).await)),
        },
        Err(error) => NodeGetVolumeStatsResponse {
            usage: Vec::new(),
            volume_condition: Some(abnormal(chain(&error))),
        },
    })
}
