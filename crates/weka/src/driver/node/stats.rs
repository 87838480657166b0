//! `NodeGetVolumeStats`.

use std::path::Path;

use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse};
use stowage_host::usage::{abnormal, condition, figures};

use super::names::Names;
use crate::driver::Driver;
use crate::driver::mounts::{Shown, is_weka};
use crate::error::{Error, chain};
use crate::handle::Handle;
use crate::metrics::volumes::{Figures, VolumeLabels};

/// How full a volume is. A mount that hangs is reported as an abnormal condition, after a moment.
pub(super) async fn stats(
    driver: &Driver,
    request: NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Error> {
    let path = Path::new(&request.volume_path);
    let not_there = || Error::NotPublished {
        id: request.volume_id.clone(),
        path: path.to_owned(),
    };
    if !path.is_absolute() {
        return Err(not_there());
    }
    let moment = driver.metrics.volumes.now();
    let view = driver.mounter.look(path).await?;
    let mount = view.mount().filter(is_weka).ok_or_else(not_there)?;
    let handle = Handle::parse(&request.volume_id).ok();
    let of_volume = handle
        .as_ref()
        .zip(Shown::by(&mount))
        .is_some_and(|(handle, shown)| shown.filesystem == handle.filesystem());
    if !of_volume {
        return Err(not_there());
    }
    let usage = match driver.stats.usage(path).await {
        Ok(usage) => usage,
        Err(error) => {
            return Ok(NodeGetVolumeStatsResponse {
                usage: Vec::new(),
                volume_condition: Some(abnormal(chain(&error))),
            });
        }
    };
    let bytes = figures(usage.bytes, Unit::Bytes);
    if let Some(handle) = handle {
        let names = driver
            .names
            .look_up(driver.kube.as_ref(), path, &request.volume_id)
            .await;
        let figures = Figures {
            capacity: bytes.total,
            used: bytes.used,
            free: bytes.available,
            reported: names.bytes,
        };
        let volumes = &driver.metrics.volumes;
        volumes.show(path, &labels(&handle, names), figures, moment);
    }
    Ok(NodeGetVolumeStatsResponse {
        usage: vec![bytes, figures(usage.inodes, Unit::Inodes)],
        volume_condition: Some(condition(driver.stats.health(path).await)),
    })
}

/// What a volume's figures are kept under.
fn labels(handle: &Handle, names: Names) -> VolumeLabels {
    VolumeLabels {
        pv_name: names.volume,
        pvc_name: names.claim,
        pvc_namespace: names.namespace,
        pvc_uid: names.claim_uid,
        storage_class_name: names.class,
        cluster_guid: names.cluster,
        filesystem_name: handle.filesystem().to_owned(),
        volume_type: handle.kind().to_owned(),
        volume_handle: handle.to_string(),
    }
}
