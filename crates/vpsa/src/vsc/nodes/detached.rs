//! Disks that were detached from nodes that may have had them in use: their nodes say when none of them is left.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;
use stowage_api::vpsa::{DETACHED, DetachedDisk, LEFT, VscNode};
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;

use super::Nodes;
use crate::vsc::attachment::how_to_forget;
use crate::vsc::cluster::on_node;

/// How long a node may take for its answer before people are told.
const ANSWER: Duration = Duration::from_secs(120);

impl Nodes {
    /// Whether the node has said that none of them is left, and the arrays have detached them all.
    pub(super) fn is_settled(&self, node: &VscNode) -> bool {
        let annotations = node.annotations();
        let told = annotations.get(DETACHED);
        if told.is_none() || told != annotations.get(LEFT) {
            return false;
        }
        let attachments = self.context.cluster.attachments.store();
        let attachments = attachments.in_group(&on_node(&node.name_any()));
        // One that waits until the node is let in is another.
        let mut leaving = attachments
            .iter()
            .filter(|it| it.object.metadata.deletion_timestamp.is_some());
        let disks = disks_of(node);
        !leaving.any(|it| {
            let volume = &it.object.spec.volume_name;
            disks.iter().any(|disk| disk.volume == *volume)
        })
    }

    /// Lets new volumes come. Called twice: they come. What was added meanwhile is asked for.
    pub(super) async fn settle(&self, node: &VscNode) -> Result<(), ObjectError> {
        let told = node.annotations().get(DETACHED);
        let answered = ["metadata", "annotations", DETACHED];
        let patch = ObjectPatch::new()
            .test(answered, json!(told))
            .remove_annotation(DETACHED)
            .remove_annotation(LEFT);
        self.context.writer.change(node, patch).await?;
        self.reminders.remove(&node.name_any());
        let message =
            "no disk is left on the node that was detached while it may have been in use there";
        self.tell(node, "Clean", message);
        Ok(())
    }

    /// Tells people of a node that has not answered for long, less and less often.
    pub(super) fn remind_of_disks(&self, node: &VscNode, name: &str) {
        let disks = disks_of(node);
        let is_long = |disk: &DetachedDisk| {
            let waits = Duration::try_from(Timestamp::now().duration_since(disk.since.0));
            waits.is_ok_and(|waits| waits >= ANSWER)
        };
        if !disks.iter().any(is_long) || self.reminders.is(name, Instant::now()) {
            return;
        }
        self.reminders.add(name, Instant::now());
        let volumes: Vec<&str> = disks.iter().map(|disk| disk.volume.as_str()).collect();
        let message = format!(
            "the node does not say that it has let go of {}, which were detached while they may have been in use there: nothing new is \
             attached to it until it does. Delete the pods that use them; the log of its node plugin, which must not be older than the \
             controller, says what is left. {}",
            volumes.join(", "),
            how_to_forget(name)
        );
        tracing::warn!(node = name, "{message}.");
        self.tell(node, "NotClean", &message);
    }
}

/// What cannot be read is no disk that anybody could name.
fn disks_of(node: &VscNode) -> Vec<DetachedDisk> {
    let annotation = node.annotations().get(DETACHED);
    annotation
        .and_then(|it| DetachedDisk::all_of(it).ok())
        .unwrap_or_default()
}
