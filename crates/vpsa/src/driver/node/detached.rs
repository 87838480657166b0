//! Disks that were detached on their arrays while this node may have had them in use: it says when none of them is left here.

use kube::ResourceExt as _;
use serde_json::json;
use stowage_api::causes::chain;
use stowage_api::vpsa::{DETACHED, DetachedDisk, LEFT, VscNode};
use stowage_host::kubelet::Mounted;

use super::NodeServices;
use super::let_go::Going;
use crate::driver::error::Error;

impl NodeServices {
    /// Says that none of the disks is left here that the VSCNode names, if that is so; otherwise what is left. Called twice: it is
    /// said.
    pub(super) async fn answer_for_disks(&self, node: &VscNode) -> Result<(), String> {
        let annotations = node.annotations();
        let Some(asked) = annotations.get(DETACHED) else {
            return Ok(());
        };
        if annotations.get(LEFT) == Some(asked) {
            return Ok(());
        }
        let disks = DetachedDisk::all_of(asked);
        let disks = disks.map_err(|error| format!("{DETACHED} cannot be read: {error}"))?;
        for disk in &disks {
            self.clean_of_disk(disk).await?;
        }
        let answer = json!({"metadata": {"annotations": {LEFT: asked}}});
        self.registration.patch(answer).await?;
        tracing::info!(
            "No disk is left on this node that was detached while it may have been in use."
        );
        Ok(())
    }

    /// Takes a disk away from the kernel that nobody uses; says who uses it, if somebody does.
    async fn clean_of_disk(&self, disk: &DetachedDisk) -> Result<(), String> {
        let DetachedDisk {
            volume,
            target,
            lun,
            ..
        } = disk;
        let busy = |_| format!("another call works on volume `{volume}` on this node");
        let _guard = self.locks.lock(volume).map_err(busy)?;
        self.clean_of_mounts_of(Some(volume)).await?;
        let going = Going { volume, lun: *lun };
        let gone = self.let_go(target, Some(going)).await;
        gone.map_err(|error| chain(&error))?;
        match self.is_in_use(target, *lun).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(format!(
                "disk {lun} of {target}, which was volume `{volume}`, is in use on this node"
            )),
            Err(error) => Err(chain(&error)),
        }
    }

    async fn is_in_use(&self, target: &str, lun: u64) -> Result<bool, Error> {
        let left = self.disks(Some(target)).await?;
        match left.iter().find(|disk| disk.lun == lun) {
            Some(disk) => self.is_used(disk).await,
            None => Ok(false),
        }
    }
}

/// Whether a mount is of a volume, or of any. Without a name it may be of each. PersistentVolumes are called as their volumes, but
/// for those that people made: of them the disk tells.
pub(super) fn is_of(mounted: &Mounted, volume: Option<&str>) -> bool {
    match (volume, &mounted.volume) {
        (Some(volume), Some(its)) => volume == its,
        _ => true,
    }
}
