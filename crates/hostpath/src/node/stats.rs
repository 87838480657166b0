//! `NodeGetVolumeStats`.

use std::path::Path;

use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage,
};
use stowage_csi::sizes::signed;
use stowage_host::usage::{abnormal, condition, figures, healthy};

use super::target::Found;
use crate::driver::Driver;
use crate::error::{Error, chain};

/// How full a volume is. A mount that hangs is reported as an abnormal condition, after a moment.
pub(super) async fn stats(
    driver: &Driver,
    request: NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Error> {
    let path = Path::new(&request.volume_path);
    let not_there = || Error::NotMounted {
        id: request.volume_id.clone(),
        path: path.to_owned(),
    };
    let (image, backing) = driver.backing(&request.volume_id).await?;
    if !path.is_absolute() {
        return Err(not_there());
    }
    match driver.found_at(path, backing).await? {
        Found::Filesystem { .. } => Ok(filesystem(driver, path).await),
        Found::Device { .. } => {
            let total = driver.host.stats.device_bytes(&image).await?;
            Ok(NodeGetVolumeStatsResponse {
                usage: vec![VolumeUsage {
                    total: signed(total),
                    unit: Unit::Bytes.into(),
                    ..VolumeUsage::default()
                }],
                volume_condition: Some(driver.condition_of(healthy())),
            })
        }
        Found::Nothing | Found::Foreign => Err(not_there()),
    }
}

async fn filesystem(driver: &Driver, path: &Path) -> NodeGetVolumeStatsResponse {
    let stats = &driver.host.stats;
    match stats.usage(path).await {
        Ok(usage) => {
            let mut usage_figures = vec![figures(usage.bytes, Unit::Bytes)];
            // btrfs does not count inodes.
            if usage.inodes.total > 0 {
                usage_figures.push(figures(usage.inodes, Unit::Inodes));
            }
            NodeGetVolumeStatsResponse {
                usage: usage_figures,
                volume_condition: Some(driver.condition_of(condition(stats.health(path).await))),
            }
        }
        Err(error) => NodeGetVolumeStatsResponse {
            usage: Vec::new(),
            volume_condition: Some(abnormal(chain(&error))),
        },
    }
}

impl Driver {
    /// The condition of a volume that looks like this by itself: no better than that of the directory it is in.
    fn condition_of(&self, seen: VolumeCondition) -> VolumeCondition {
        match &self.danger {
            Some(danger) if !seen.abnormal => abnormal(danger.clone()),
            _ => seen,
        }
    }
}
