//! Disks that are detached although their node may have them in use, and what is attached to that node meanwhile: nothing.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use stowage_api::vpsa::{
    AttachType, DETACHED, DetachedDisk, FENCED, IscsiStatus, VolumeAttachment, VscNode,
};
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::object_error::ObjectError;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use super::how_to_forget;
use super::reconcile::Attachments;
use super::step::Seen;
use crate::rest::wire::AttachedServer;
use crate::vsc::condition::Reason;
use crate::vsc::error::StepError;

/// Who changes what is attached to which node. Whatever is being attached when a disk is marked has its number already, or is
/// waited for; what comes later sees the mark. There is one control plane that leads.
#[derive(Default)]
pub struct Gates(Mutex<HashMap<String, Arc<RwLock<()>>>>);

impl Gates {
    fn of(&self, node: &str) -> Arc<RwLock<()>> {
        let mut gates = self.0.lock();
        Arc::clone(gates.entry(node.to_owned()).or_default())
    }
}

/// Whether a node may still use a disk: it said that it does, and nothing since; or it cannot say anything now.
pub fn may_be_used(attachment: &VolumeAttachment, is_node_lost: bool) -> bool {
    if attachment.spec.attach_type != AttachType::Iscsi {
        return false;
    }
    let block = attachment.status.as_ref().and_then(|it| it.block.as_ref());
    let is_active = block.is_some_and(|it| it.iscsi_status == Some(IscsiStatus::Active));
    is_active || is_node_lost
}

/// Whether disks bar a node for what is new.
pub fn is_barred(node: &VscNode) -> bool {
    node.annotations().contains_key(DETACHED)
}

/// Why nothing new is attached to a node, and what can be done.
pub fn why_barred(node: &str) -> String {
    format!(
        "a disk was detached from node `{node}` while it may have been in use there: nothing new is attached to it until the node says \
         that the disk is gone. Delete the pods there that use it ({DETACHED} on the VSCNode names its volume). {}",
        how_to_forget(node)
    )
}

impl Attachments {
    /// Whether its node is not ready.
    pub(super) fn is_node_lost(&self, attachment: &VolumeAttachment) -> bool {
        let machine = self.machines.store().get(&attachment.spec.vsc_node_name);
        machine.is_some_and(|it| it.lost(Timestamp::now()).is_some())
    }

    /// Says that a disk is detached that its node may have in use, before the array does it. Called twice: it is said.
    pub(super) async fn mark(
        &self,
        attachment: &VolumeAttachment,
        seen: Option<&Seen>,
    ) -> Result<(), StepError> {
        let name = &attachment.spec.vsc_node_name;
        let gate = self.gates.of(name);
        let _alone = gate.write().await;
        // Without its record there is nobody to be asked. A fence says more.
        let Some(node) = self.context.writer.read::<VscNode>(name).await? else {
            return Ok(());
        };
        if node.annotations().contains_key(FENCED) {
            return Ok(());
        }
        let Some((target, lun)) = place(attachment, seen) else {
            return Ok(());
        };
        let known = node.annotations().get(DETACHED);
        let mut disks = known
            .and_then(|it| DetachedDisk::all_of(it).ok())
            .unwrap_or_default();
        let volume = &attachment.spec.volume_name;
        let is_it =
            |it: &DetachedDisk| it.volume == *volume && it.target == target && it.lun == lun;
        if disks.iter().any(is_it) {
            return Ok(());
        }
        disks.push(DetachedDisk {
            volume: volume.clone(),
            target,
            lun,
            since: Time(Timestamp::now()),
        });
        let told = DetachedDisk::annotation(&disks).map_err(ObjectError::unreadable)?;
        let read = json!(node.resource_version());
        let patch = ObjectPatch::new()
            .test(["metadata", "resourceVersion"], read)
            .set_annotation(!node.annotations().is_empty(), DETACHED, &told);
        let node = self.context.writer.change(&node, patch).await?;
        let message = format!(
            "Volume `{volume}` is detached while its disk may be in use there: nothing new is attached to the node until it says that the disk \
             is gone"
        );
        tracing::warn!(
            node = name,
            volume,
            "A disk is detached that its node may have in use."
        );
        self.context
            .tell(&node, &Reason::not_ready("DetachedInUse", message), true);
        Ok(())
    }

    /// While this is held no disk of the node is marked; none if one is.
    pub(super) async fn enter(
        &self,
        node: &str,
    ) -> Result<Option<OwnedRwLockReadGuard<()>>, StepError> {
        let inside = self.gates.of(node).read_owned().await;
        // What is known may be behind.
        let there = self.context.writer.read::<VscNode>(node).await?;
        Ok((!there.as_ref().is_some_and(is_barred)).then_some(inside))
    }
}

/// Which disk it is for the node: as its array says, or as was written down.
fn place(attachment: &VolumeAttachment, seen: Option<&Seen>) -> Option<(String, u64)> {
    let attached = seen.and_then(|seen| seen.attached.as_ref());
    if let Some((target, lun)) = attached.and_then(AttachedServer::disk) {
        return Some((target.to_owned(), lun));
    }
    let block = attachment.status.as_ref()?.block.as_ref()?;
    let lun = u64::try_from(block.lun).ok()?;
    (!block.target.is_empty()).then(|| (block.target.clone(), lun))
}
