//! Compares attachments with what the driver says is attached, for drivers that can say.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use stowage_csi::proto::csi::ListVolumesRequest;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::queues::Operation;
use super::worker::Worker;
use crate::cluster::attachment::Attachment;
use crate::driver_call;

/// Where the volumes of interest are attached: node ids by volume id.
pub(super) type Published = HashMap<String, HashSet<String>>;

/// An attachment in the driver's words.
struct Expected {
    attachment: Arc<Attachment>,
    volume_id: String,
    node_id: String,
}

/// Why there is nothing to compare with.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("ListVolumes: {}", driver_call::status(.0))]
    Driver(Box<Status>),
    #[error("the driver's ListVolumes has no end: the page after `{0}` leads to itself")]
    Endless(String),
}

impl Worker {
    /// Compares now and then, until `stop`. A list that fails is told once and asked for again.
    pub(super) async fn compare(&self, every: Duration, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = String::new();
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let (expected, leaving) = (self.expected(), self.to_be_deleted());
            let ids = expected.iter().map(|one| one.volume_id.as_str());
            let strays = leaving.iter().map(|one| one.csi.volume_handle.as_str());
            let wanted = ids.chain(strays).collect();
            let Some(listed) = stop.run_until_cancelled(self.list(&wanted)).await else {
                return;
            };
            match listed {
                Ok(published) => {
                    told.clear();
                    self.doubt(&expected, &published);
                    self.detach_strays(&leaving, &published).await;
                }
                Err(error) => {
                    let reason = error.to_string();
                    if told != reason {
                        tracing::warn!(
                            reason,
                            "Attachments cannot be compared with what the driver has attached; trying again."
                        );
                        told = reason;
                    }
                }
            }
        }
    }

    fn expected(&self) -> Vec<Expected> {
        let attachments = self.cluster.attachments.store().all().into_iter();
        let expected = attachments.filter_map(|attachment| {
            let volume = self
                .cluster
                .volumes
                .store()
                .get(attachment.volume.as_deref()?)
                .filter(|volume| !volume.is_in_tree())?;
            let registered = || self.cluster.csi_nodes.store().get(&attachment.node);
            let node_id = match &attachment.node_id {
                Some(node_id) => node_id.clone(),
                None => registered()?.node_id.clone(),
            };
            Some(Expected {
                volume_id: volume.csi.volume_handle.clone(),
                node_id,
                attachment,
            })
        });
        expected
            .filter(|expected| self.queues.ours(&expected.attachment))
            .collect()
    }

    /// All pages; of volumes that nobody expects anything of, nothing is kept.
    async fn list(&self, wanted: &HashSet<&str>) -> Result<Published, ListError> {
        let mut published = Published::new();
        let mut tokens = HashSet::new();
        let mut token = String::new();
        loop {
            let request = ListVolumesRequest {
                max_entries: self.page,
                starting_token: token.clone(),
            };
            let page = self.controller.clone().list_volumes(request).await;
            let page = page.map_err(|status| ListError::Driver(Box::new(status)))?;
            let page = page.into_inner();
            for entry in page.entries {
                if let (Some(volume), Some(status)) = (entry.volume, entry.status)
                    && wanted.contains(volume.volume_id.as_str())
                {
                    let nodes = published.entry(volume.volume_id).or_default();
                    nodes.extend(status.published_node_ids);
                }
            }
            token = page.next_token;
            if token.is_empty() {
                return Ok(published);
            }
            if !tokens.insert(token.clone()) {
                return Err(ListError::Endless(token));
            }
        }
    }

    /// Has another look at what differs. What changed while the driver made its list is left alone.
    fn doubt(&self, expected: &[Expected], published: &Published) {
        for one in expected {
            let before = &one.attachment;
            let current = self.cluster.attachments.store().get(&before.name);
            let unchanged = current.is_some_and(|current| {
                (&current.uid, current.attached, current.deleting)
                    == (&before.uid, before.attached, before.deleting)
            });
            if !unchanged || before.attached == is_published(one, published) {
                continue;
            }
            tracing::info!(
                volume = before.volume,
                node = before.node,
                attached = before.attached,
                "The driver reports something else; looking again."
            );
            self.doubted.add(before.name.as_str().into());
            self.queues
                .queue(Operation::of(before))
                .add(before.name.as_str());
        }
    }
}

fn is_published(expected: &Expected, published: &Published) -> bool {
    let nodes = published.get(&expected.volume_id);
    nodes.is_some_and(|nodes| nodes.contains(&expected.node_id))
}
