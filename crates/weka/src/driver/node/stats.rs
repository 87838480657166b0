//! `NodeGetVolumeStats`.

use std::path::Path;

use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse};
use stowage_csi::usage::{condition, figures, unwell};

use super::unpublish::labels;
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
                volume_condition: Some(unwell(chain(&error))),
            });
        }
    };
    let bytes = figures(usage.bytes, Unit::Bytes);
    if let Some(labels) = labels(&request.volume_id) {
        driver
            .metrics
            .volume(&labels, bytes.total, bytes.used, bytes.available);
    }
    Ok(NodeGetVolumeStatsResponse {
        usage: vec![bytes, figures(usage.inodes, Unit::Inodes)],
        volume_condition: Some(condition(driver.stats.health(path).await)),
    })
}
