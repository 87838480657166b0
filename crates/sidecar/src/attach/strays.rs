//! Volumes that the driver has attached to a node and no attachment stands for.
//!
//! An API server that has begun to delete an attachment does not see the finalizer that it gets meanwhile. We then undo
//! what we did; a process that dies at that moment leaves a volume that nobody would ever detach, and that the driver
//! refuses to delete. Only volumes that are to be deleted are looked at, which nobody can use any more, and only nodes of
//! this cluster: another one may have the same volume.

use std::collections::HashMap;
use std::sync::Arc;

use super::compare::Published;
use super::step::{Detach, Rules, unpublish};
use super::worker::Worker;
use crate::cluster::volume::{Reclaim, Volume};

impl Worker {
    /// Volumes that are to be deleted, and that were attached and are not, as far as the cluster knows.
    pub(super) fn to_be_deleted(&self) -> Vec<Arc<Volume>> {
        let mut volumes = self.cluster.volumes.store().all();
        volumes.retain(|volume| self.may_be_stray(volume));
        volumes
    }

    fn may_be_stray(&self, volume: &Volume) -> bool {
        let attachments = self.cluster.attachments.store();
        may_be_stray(&self.rules, volume) && attachments.count_in_group(&volume.name) == 0
    }

    /// Detaches what is attached all the same. Called twice: the driver has nothing to detach.
    pub(super) async fn detach_strays(&self, volumes: &[Arc<Volume>], published: &Published) {
        let nodes = self.cluster.csi_nodes.store().all();
        let ours = nodes.iter().filter(|node| self.queues.is_ours(&node.name));
        let by_id: HashMap<_, _> = ours.map(|node| (&node.node_id, node)).collect();
        for volume in volumes {
            let ids = published.get(&volume.csi.volume_handle);
            let here = ids.into_iter().flatten().filter_map(|id| by_id.get(id));
            for node in here {
                // The list took its time.
                if !self.may_be_stray(volume) {
                    break;
                }
                let detach = Detach {
                    request: unpublish(volume, &node.node_id),
                    secret: volume.csi.controller_publish_secret.as_deref().cloned(),
                };
                match self.unpublish_with_secret(detach).await {
                    Ok(()) => tracing::warn!(
                        volume = volume.name,
                        node = node.name,
                        "Detached a volume that is to be deleted and that no attachment stood for."
                    ),
                    Err(failure) => tracing::warn!(
                        volume = volume.name,
                        node = node.name,
                        reason = failure.volume_error(false).message,
                        "A volume is attached without an attachment and cannot be detached; trying again."
                    ),
                }
            }
        }
    }
}

/// Whether nobody can use a volume any more that was attached once.
fn may_be_stray(rules: &Rules, volume: &Volume) -> bool {
    volume.is_released()
        && volume.reclaim != Reclaim::Keep
        && volume.ours_to_delete
        && !volume.is_in_tree()
        && volume.has_finalizer(&rules.finalizer)
}
