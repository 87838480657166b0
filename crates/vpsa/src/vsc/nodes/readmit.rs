//! Nodes that were fenced and are ready again.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt as _;
use stowage_api::vpsa::{CLEAN, DETACHED, FENCED, LEFT, RELEASED, VscNode};
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;

use super::Nodes;

/// How long a node may take for its answer before people are told.
const ANSWER: Duration = Duration::from_secs(60);

/// What people are told then.
const NO_ANSWER: &str = "the node is ready again, and does not say that no volume of a VPSA is in use there: nothing is attached \
     to it until it does. Look at the log of its node plugin, which must not be older than the controller; drain and \
     restart the node if volumes stay mounted";

impl Nodes {
    /// Asks the node whether something of before is left there. Called twice: it is asked anew.
    pub(super) async fn ask(&self, node: &VscNode) -> Result<(), ObjectError> {
        let annotated = !node.annotations().is_empty();
        let now = Timestamp::now().to_string();
        let patch = ObjectPatch::new().set_annotation(annotated, RELEASED, &now);
        self.context.writer.change(node, patch).await?;
        Ok(())
    }

    /// Tells people of a node that has not answered for long, less and less often.
    pub(super) fn remind(&self, node: &VscNode, name: &str) {
        let asked = node.annotations().get(RELEASED);
        let asked: Option<Timestamp> = asked.and_then(|it| it.parse().ok());
        let waits = asked.map(|asked| Timestamp::now().duration_since(asked));
        let waits = waits.and_then(|it| Duration::try_from(it).ok());
        if waits.is_some_and(|waits| waits < ANSWER) || self.reminders.is(name, Instant::now()) {
            return;
        }
        self.reminders.add(name, Instant::now());
        tracing::warn!(node = name, "{NO_ANSWER}.");
        self.tell(node, "NotClean", NO_ANSWER);
    }

    /// Lets it in again. Called twice: it is in.
    pub(super) async fn readmit(&self, node: &VscNode, name: &str) -> Result<(), ObjectError> {
        // What is known may be behind.
        if self.context.writer.is_node_used(name).await? {
            return Ok(());
        }
        self.release.quiet.remove(name);
        self.reminders.remove(name);
        // Nothing is left: so no single disk is, either.
        let all = [FENCED, RELEASED, CLEAN, DETACHED, LEFT].into_iter();
        let there = all.filter(|key| node.annotations().contains_key(*key));
        let patch = there.fold(ObjectPatch::new(), ObjectPatch::remove_annotation);
        self.context.writer.change(node, patch).await?;
        let message = "the node is ready again, and nothing of before is left there";
        self.tell(node, "Readmitted", message);
        Ok(())
    }
}
