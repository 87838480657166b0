//! Which change is work for which queue.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use stowage_kubernetes::queue::{Backoff, Key, Queue};
use stowage_kubernetes::store::Change;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::cluster::attachment::Attachment;
use crate::cluster::volume::Volume;

/// Attaching and detaching have workers of their own: detaches that hang keep no pod from starting.
#[derive(Clone)]
pub(super) struct Queues {
    pub(super) attach: Queue,
    pub(super) detach: Queue,
    /// Volumes that are being deleted.
    pub(super) volumes: Queue,
    /// With a controller on every node: the node whose attachments are ours.
    own_node: Option<Arc<str>>,
}

/// What is done to an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Attach,
    Detach,
}

impl Operation {
    pub(super) fn of(attachment: &Attachment) -> Self {
        if attachment.deleting {
            Self::Detach
        } else {
            Self::Attach
        }
    }
}

impl Queues {
    pub(super) fn new(backoff: Backoff, own_node: Option<&str>, registry: &mut Registry) -> Self {
        Self {
            attach: Queue::new("csi-attacher-va", backoff, registry),
            detach: Queue::new("csi-attacher-va-detach", backoff, registry),
            volumes: Queue::new("csi-attacher-pv", backoff, registry),
            own_node: own_node.map(Into::into),
        }
    }

    pub(super) fn queue(&self, operation: Operation) -> &Queue {
        match operation {
            Operation::Attach => &self.attach,
            Operation::Detach => &self.detach,
        }
    }

    /// Whether we answer for an attachment.
    pub(super) fn ours(&self, attachment: &Attachment) -> bool {
        self.is_ours(&attachment.node)
    }

    /// The same for a node.
    pub(super) fn is_ours(&self, node: &str) -> bool {
        let own = self.own_node.as_deref();
        own.is_none_or(|own| own == node)
    }

    /// Adds attachments and volumes to the queues as they change, until `stop`.
    pub(super) fn listen(&self, cluster: &Cluster, finalizer: &str, stop: &CancellationToken) {
        let (queues, stopped) = (self.clone(), stop.clone());
        cluster.attachments.listen(move |change| {
            if !stopped.is_cancelled() {
                queues.add(change);
            }
        });
        let (queues, stopped) = (self.clone(), stop.clone());
        let finalizer = finalizer.to_owned();
        cluster.volumes.listen(move |change| {
            if !stopped.is_cancelled() {
                queues.add_volume(change, &finalizer);
            }
        });
    }

    fn add(&self, change: &Change<Attachment>) {
        if !self.ours(change.object()) {
            return;
        }
        let key: Key = change.object().name.as_str().into();
        match change {
            Change::Set { old, new } => {
                if !old.as_ref().is_none_or(|old| matters(old, new)) {
                    return;
                }
                self.queue(Operation::of(new)).add(Arc::clone(&key));
                if new.deleting && old.is_some() {
                    let_go(&self.attach, key);
                }
            }
            Change::Gone(last) => {
                let_go(&self.attach, Arc::clone(&key));
                let_go(&self.detach, key);
                if let Some(volume) = &last.volume {
                    self.volumes.add(volume.as_str());
                }
            }
        }
    }

    fn add_volume(&self, change: &Change<Volume>, finalizer: &str) {
        let volume = change.object();
        if volume.deleting && volume.has_finalizer(finalizer) {
            self.volumes.add(volume.name.as_str());
        }
    }
}

/// What waits after a failure counts as failing until its pause is over. A worker looks at it now and finds that it
/// is not this queue's any more.
fn let_go(queue: &Queue, key: Key) {
    queue.add(key);
}

/// Whether a change is more than an echo of what we wrote ourselves. Errors in the status, the finalizer and the
/// node's id come back while an attempt runs or waits: they must not end its pause.
fn matters(old: &Attachment, new: &Attachment) -> bool {
    let facts = |one: &Attachment| (one.uid.clone(), one.deleting, one.attached);
    facts(old) != facts(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn attachment(metadata: &Value, status: &Value) -> Attachment {
        let mut object = json!({
            "metadata": { "name": "va", "uid": "1" },
            "spec": { "attacher": "d", "nodeName": "north", "source": { "persistentVolumeName": "pv" } },
            "status": status,
        });
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        let wire = serde_json::from_value(object).unwrap();
        Attachment::read(wire, "d").unwrap()
    }

    #[test]
    fn what_we_wrote_ourselves_does_not_matter() {
        let before = attachment(&json!({}), &json!({ "attached": false }));
        let echoes = [
            attachment(
                &json!({ "finalizers": ["external-attacher/d"] }),
                &json!({}),
            ),
            attachment(
                &json!({ "annotations": { "csi.alpha.kubernetes.io/node-id": "n1" } }),
                &json!({}),
            ),
            attachment(&json!({}), &json!({ "attachError": { "message": "no" } })),
            attachment(&json!({}), &json!({ "detachError": { "message": "no" } })),
        ];
        for echo in echoes {
            assert!(!matters(&before, &echo), "{echo:?}");
        }
        let news = [
            attachment(&json!({ "uid": "2" }), &json!({})),
            attachment(
                &json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }),
                &json!({}),
            ),
            attachment(&json!({}), &json!({ "attached": true })),
        ];
        for news in news {
            assert!(matters(&before, &news), "{news:?}");
        }
    }

    fn queues(own_node: Option<&str>) -> Queues {
        let second = std::time::Duration::from_secs(1);
        let backoff = Backoff {
            first: second,
            longest: second,
        };
        Queues::new(backoff, own_node, &mut Registry::default())
    }

    #[test]
    fn a_controller_on_every_node_works_on_its_own_only() {
        let new = Arc::new(attachment(&json!({}), &json!({})));
        for (own, expected) in [(None, 1), (Some("north"), 1), (Some("south"), 0)] {
            let queues = queues(own);
            queues.add(&Change::Set {
                old: None,
                new: Arc::clone(&new),
            });
            assert_eq!(queues.attach.len(), expected, "{own:?}");
        }
    }

    #[test]
    fn what_is_gone_lets_go_of_its_volume() {
        let queues = queues(None);
        let last = attachment(
            &json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }),
            &json!({}),
        );
        queues.add(&Change::Gone(Arc::new(last)));
        assert_eq!(queues.volumes.len(), 1);
    }
}
