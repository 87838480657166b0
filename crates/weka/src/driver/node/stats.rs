//! `NodeGetVolumeStats`.

use std::path::Path;

use stowage_csi::host::stat::{Amount, Health};
use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage,
};

use super::unpublish::labels;
use crate::capacity::signed;
use crate::driver::Driver;
use crate::driver::mounts::is_weka;
use crate::error::{Error, chain};

/// How full a volume is. A mount that hangs is told as its condition, after a moment.
pub(super) async fn stats(
    driver: &Driver,
    request: NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Error> {
    let path = Path::new(&request.volume_path);
    let not_there = || Error::NotThere {
        id: request.volume_id.clone(),
        path: path.to_owned(),
    };
    if !path.is_absolute() {
        return Err(not_there());
    }
    let view = driver.mounter.look(path).await?;
    let mount = view.mount().filter(is_weka).ok_or_else(not_there)?;
    let of_volume = crate::handle::Handle::parse(&request.volume_id)
        .is_ok_and(|handle| mount.source() == handle.filesystem());
    // An NFS mount has its server in front of the filesystem's name.
    if !of_volume && mount.kind() != "nfs" && mount.kind() != "nfs4" {
        return Err(not_there());
    }
    let usage = match driver.stats.usage(path).await {
        Ok(usage) => usage,
        Err(error) => {
            return Ok(NodeGetVolumeStatsResponse {
                usage: Vec::new(),
                volume_condition: Some(condition(Some(chain(&error)))),
            });
        }
    };
    let bytes = figures(usage.bytes, Unit::Bytes);
    if let Some(labels) = labels(&request.volume_id) {
        driver
            .metrics
            .volume(&labels, bytes.total, bytes.used, bytes.available);
    }
    let trouble = match driver.stats.health(path).await {
        Health::Alive => None,
        Health::Corrupted(errno) => Some(format!(
            "the filesystem answers with an error only: {errno}"
        )),
        Health::Hung => Some("the filesystem does not answer".to_owned()),
        Health::Missing => Some("the mount point is gone".to_owned()),
    };
    Ok(NodeGetVolumeStatsResponse {
        usage: vec![bytes, figures(usage.inodes, Unit::Inodes)],
        volume_condition: Some(condition(trouble)),
    })
}

fn condition(trouble: Option<String>) -> VolumeCondition {
    VolumeCondition {
        abnormal: trouble.is_some(),
        message: trouble.unwrap_or_else(|| "the volume is well".to_owned()),
    }
}

fn figures(amount: Amount, unit: Unit) -> VolumeUsage {
    VolumeUsage {
        available: signed(amount.available),
        total: signed(amount.total),
        used: signed(amount.used),
        unit: unit.into(),
    }
}
