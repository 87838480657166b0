//! VSCNode: deleted with its Node; and, where that is asked for, what becomes of pods on nodes that are lost.
//!
//! A node that is not ready any more may be dead, or only not seen. Its pods can start elsewhere only when it is sure that
//! they do not write any more: so first its volumes are detached on their arrays, and then pods and attachments are
//! deleted without it.
//!
//! A node that comes back still has its filesystems mounted. So all of this is finished although it is back, and then the node
//! itself has to say that nothing is left there before anything is attached to it again.
//!
//! The same is so for single disks that were detached although a node may have had them in use (`detached`): they bar the node for
//! what is new, and nothing else happens to it. What bars a node outlives its Node (`dismiss`).

mod detached;
mod dismiss;
mod machine;
mod quiet;
mod readmit;
mod release;
mod step;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use stowage_api::causes::chain;
use stowage_api::vpsa::{CLEAN, DETACHED, FENCED, FORGET, RELEASED, VolumeAttachment, VscNode};
use stowage_kubernetes::deletion;
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::{ObjectError, explain};
use stowage_kubernetes::watch::Watched;
use tokio::time::sleep;

pub use self::machine::Machine;
pub use self::quiet::Quiet;
pub use self::release::Release;
use self::step::{Observed, Step, next_step};
use super::cluster::on_node;
use super::condition::Reason;
use super::context::Context;
use super::error::StepError;

/// What people are told of a node that is given up.
const LOST: &str =
    "the node has not been ready for too long: its volumes are detached, then its pods are deleted";

/// Keeps VSCNodes.
pub struct Nodes {
    /// What the kinds have in common.
    pub context: Arc<Context>,
    /// The Nodes of the cluster.
    pub machines: Arc<Watched<Machine>>,
    /// Lets pods and volumes go.
    pub release: Release,
    /// How long a node may be lost before its pods are moved; never if none.
    pub patience: Option<Duration>,
    /// How long apart nodes are looked at; nothing is asked for it.
    pub interval: Duration,
    /// When to say again that a node does not answer, or cannot be let go.
    pub reminders: Quiet,
}

impl Nodes {
    /// Looks again and again. Each look does one step for each node: what is interrupted is found again as it is.
    pub async fn keep(&self) {
        // Without the right to see Nodes nothing is known to be gone or lost.
        self.machines.synced().await;
        loop {
            for node in self.context.cluster.nodes.store().all() {
                if let Err(error) = self.look(&node.object).await {
                    let (node, error) = (node.object.name_any(), chain(&error));
                    tracing::warn!(node, error, "Trying again.");
                }
            }
            sleep(self.interval).await;
        }
    }

    async fn look(&self, node: &VscNode) -> Result<(), StepError> {
        let name = node.name_any();
        match next_step(&self.observe(node, &name).await?, self.patience) {
            Step::Rest => Ok(()),
            Step::Forget => Ok(self.forget(node).await?),
            Step::Dismiss => self.dismiss(node, &name).await,
            Step::Keep => Ok(self.keep_back(node).await?),
            Step::Settle => Ok(self.settle(node).await?),
            Step::WaitForDisks => {
                self.remind_of_disks(node, &name);
                Ok(())
            }
            Step::Fence => {
                self.release.quiet.remove(&name);
                let now = Timestamp::now().to_string();
                let annotated = !node.annotations().is_empty();
                let patch = ObjectPatch::new().set_annotation(annotated, FENCED, &now);
                self.context.writer.change(node, patch).await?;
                self.tell(node, "Fenced", LOST);
                Ok(())
            }
            Step::Detach => Ok(self.detach(node, &name).await?),
            Step::Release => Ok(self.release.release(&name, fence(node)).await?),
            Step::Ask => Ok(self.ask(node).await?),
            Step::Wait => {
                self.remind(node, &name);
                Ok(())
            }
            Step::Readmit => Ok(self.readmit(node, &name).await?),
        }
    }

    /// Called twice: it is gone.
    async fn forget(&self, node: &VscNode) -> Result<(), ObjectError> {
        let (name, uid) = (node.name_any(), node.uid().unwrap_or_default());
        // What is known may be behind, and the record is needed for detaching.
        if self.context.writer.is_node_used(&name).await? {
            return Ok(());
        }
        let nodes = self.context.writer.api::<VscNode>();
        let deleted = deletion::delete(&nodes, &name, &uid).await;
        deleted.map_err(explain("delete", "vscnodes"))?;
        tracing::info!(name, "A VSCNode went with its Node.");
        Ok(())
    }

    /// Has the volumes detached: their objects go once the arrays have done it. What the node was asked before is void.
    /// Called twice: they are being detached.
    async fn detach(&self, node: &VscNode, name: &str) -> Result<(), ObjectError> {
        if node.annotations().contains_key(RELEASED) {
            let patch = ObjectPatch::new().remove_annotation(RELEASED);
            self.context.writer.change(node, patch).await?;
        }
        let all = self.context.writer.api::<VolumeAttachment>();
        let attachments = self.context.cluster.attachments.store();
        for kept in attachments.in_group(&on_node(name)) {
            let (name, uid) = (kept.object.name_any(), kept.object.uid());
            if kept.object.metadata.deletion_timestamp.is_none() {
                let deleted = deletion::delete(&all, &name, &uid.unwrap_or_default()).await;
                deleted.map_err(explain("delete", "volumeattachments.storage.zadara.com"))?;
            }
        }
        Ok(())
    }

    fn tell(&self, node: &VscNode, word: &'static str, message: &str) {
        let reason = Reason::not_ready(word, message.to_owned());
        self.context.tell(node, &reason, true);
    }

    async fn observe(&self, node: &VscNode, name: &str) -> Result<Observed, ObjectError> {
        let (now, machines) = (Timestamp::now(), self.machines.store());
        let machine = machines.get(name);
        let lost = machine.as_ref().and_then(|it| it.lost(now));
        let all = machines.all();
        let away = all.iter().filter(|it| it.lost(now).is_some()).count();
        let attachments = self.context.cluster.attachments.store();
        let attachments = attachments.count_in_group(&on_node(name));
        let (annotations, exists) = (node.annotations(), machine.is_some());
        let fenced = annotations.contains_key(FENCED);
        let asked = annotations.get(RELEASED);
        // Only what is known already is looked at for every node.
        let is_asked_for = exists && fenced && attachments == 0;
        Ok(Observed {
            exists,
            lost,
            too_many: away * 2 > all.len(),
            fenced,
            attachments,
            released: is_asked_for && self.release.is_done(name, fence(node)).await?,
            asked: asked.is_some(),
            clean: asked.is_some() && asked == annotations.get(CLEAN),
            barred: annotations.contains_key(DETACHED),
            settled: self.is_settled(node),
            forget: annotations.contains_key(FORGET),
        })
    }
}

/// Since when a node is fenced, if that can be read.
fn fence(node: &VscNode) -> Option<Timestamp> {
    node.annotations().get(FENCED)?.parse().ok()
}
