//! Does the steps.

mod array;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use stowage_api::vpsa::{
    AttachType, AttachmentState, BlockAttachment, IscsiStatus, Unknown, VolumeAttachment,
    VolumeAttachmentStatus,
};
use stowage_kubernetes::queue::Verdict;
use stowage_kubernetes::watch::Watched;

use super::in_use::{Gates, is_barred, may_be_used};
use super::server::Host;
use super::step::{NOT_CLEAN, Observed, Seen, Step, next_step};
use super::twin;
use crate::rest::wire::AttachedServer;
use crate::vsc::cluster::on_node;
use crate::vsc::condition::Reason;
use crate::vsc::context::{Context, LATER, SOON};
use crate::vsc::error::StepError;
use crate::vsc::nodes::Machine;
use crate::vsc::write::is_held;

/// So often the array is told what the Server record should say, in one look.
const REPAIRS: u8 = 3;

/// How soon it is looked again whether a node may be attached to: a watch that tells it may be late.
const WAIT: Duration = Duration::from_secs(5);

/// Keeps VolumeAttachments.
pub struct Attachments {
    /// What all kinds have.
    pub context: Arc<Context>,
    /// The Nodes of the cluster, as far as they may be seen.
    pub machines: Arc<Watched<Machine>>,
    /// Who changes what is attached to which node.
    pub gates: Gates,
}

/// What is known of an attachment in the course of one look at it.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct Look {
    seen: Option<Seen>,
    asked: bool,
    detached: bool,
    in_use: bool,
    /// How often the array was told what the Server record should say.
    repairs: u8,
    /// The array was told to remove the Server record.
    removed: bool,
    /// It is said on the VSCNode that the disk is detached in use.
    marked: bool,
    /// Nothing new is attached to the node, as it was just read.
    barred: bool,
}

impl Attachments {
    /// Does what is to be done for one attachment.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.context.cluster.attachments.store().get(name) else {
            return Verdict::Done;
        };
        let done = self.work(name).await;
        self.context.verdict(&kept.object, done).await
    }

    async fn work(&self, name: &str) -> Result<Verdict, StepError> {
        // What is known may be older than what we wrote ourselves.
        let Some(mut attachment) = self.context.writer.read::<VolumeAttachment>(name).await? else {
            return Ok(Verdict::Done);
        };
        let mut look = Look::default();
        let mut last = None;
        loop {
            let step = self.next(&attachment, &look);
            let now = match &step {
                Step::Rest => return Ok(Verdict::Done),
                Step::LetGo => {
                    self.context.writer.let_go(&attachment).await?;
                    return Ok(Verdict::Done);
                }
                Step::Ask => {
                    look.seen = Some(self.ask(&attachment).await?);
                    continue;
                }
                Step::Record(state, reason) if last.as_ref() == Some(&step) => {
                    return Ok(match state {
                        // Its node says when that is over.
                        _ if reason.word == NOT_CLEAN => Verdict::After(WAIT, None),
                        AttachmentState::Attaching => Verdict::After(SOON, None),
                        AttachmentState::Failed => Verdict::After(LATER, None),
                        _ => Verdict::Done,
                    });
                }
                // The array is at it.
                Step::Detach if look.detached => return Ok(Verdict::After(SOON, None)),
                Step::DeleteServer if look.removed => return Ok(Verdict::After(SOON, None)),
                Step::Record(state, reason) => {
                    Some(self.record(&attachment, state, reason, &look).await?)
                }
                Step::Hold => self.context.writer.hold(&attachment).await?,
                Step::Mark => {
                    self.mark(&attachment, look.seen.as_ref()).await?;
                    look.marked = true;
                    self.context.writer.read(name).await?
                }
                change => {
                    self.change(&attachment, change, &mut look).await?;
                    look.seen = None;
                    self.context.writer.read(name).await?
                }
            };
            last = Some(step);
            let Some(now) = now else {
                return Ok(Verdict::Done);
            };
            attachment = now;
        }
    }

    fn next(&self, attachment: &VolumeAttachment, look: &Look) -> Step {
        let (cluster, spec) = (&self.context.cluster, &attachment.spec);
        let status = attachment.status.as_ref();
        let node = cluster.nodes.store().get(&spec.vsc_node_name);
        let block = status.and_then(|status| status.block.as_ref());
        let is_leaving = attachment.metadata.deletion_timestamp.is_some();
        let is_disk = spec.attach_type == AttachType::Iscsi;
        let twin = node.as_ref().filter(|_| !is_leaving).and_then(|node| {
            let all = cluster.nodes.store().all();
            let all = all.iter().map(|it| &it.object);
            twin::reason(&node.object, all, &spec.attach_type)
        });
        let observed = Observed {
            held: is_held(attachment),
            deleting: is_leaving,
            recorded: status.map(|status| &status.state),
            volume: cluster.place(&spec.volume_name).is_some(),
            host: node.as_ref().map(|node| Host::of(&node.object.spec)),
            shared: self.others(attachment).any(|other| {
                // It may come to need it, as long as it has none.
                let own = status.and_then(|status| status.vpsa_server_id.as_ref());
                let its = other.vpsa_server_id.as_ref();
                its.is_none() || own.is_none() || its == own
            }),
            session: block.is_some_and(|it| it.iscsi_status == Some(IscsiStatus::Active)),
            seen: look.seen.as_ref(),
            asked: look.asked,
            in_use: look.in_use,
            repaired: look.repairs >= REPAIRS,
            may_be_used: may_be_used(attachment, self.is_node_lost(attachment)),
            marked: look.marked,
            barred: is_disk
                && (look.barred || node.as_ref().is_some_and(|it| is_barred(&it.object))),
            twin: twin.as_ref(),
        };
        next_step(spec, &observed)
    }

    /// The other attachments of the node on the same array, which are to stay.
    fn others(
        &self,
        attachment: &VolumeAttachment,
    ) -> impl Iterator<Item = VolumeAttachmentStatus> {
        let cluster = Arc::clone(&self.context.cluster);
        let array = cluster
            .place(&attachment.spec.volume_name)
            .map(|it| it.vpsa_id);
        let name = attachment.name_any();
        let group = on_node(&attachment.spec.vsc_node_name);
        let all = cluster.attachments.store().in_group(&group).into_iter();
        all.filter(move |it| {
            let other = &it.object;
            let place = cluster.place(&other.spec.volume_name);
            other.name_any() != name
                && other.metadata.deletion_timestamp.is_none()
                && place.map(|it| it.vpsa_id) == array
        })
        .map(|it| it.object.status.clone().unwrap_or_default())
    }

    /// Says how an attachment is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        attachment: &VolumeAttachment,
        state: &AttachmentState,
        reason: &Reason,
        look: &Look,
    ) -> Result<VolumeAttachment, StepError> {
        let mut now = attachment.status.clone().unwrap_or_default();
        now.state = state.clone();
        if let Some(attached) = look.seen.as_ref().and_then(|seen| seen.attached.as_ref()) {
            describe(&mut now, &attachment.spec.attach_type, attached);
        }
        let recorded = self.context.record(attachment, now, reason).await?;
        if recorded.is_news {
            let is_trouble = *state == AttachmentState::Failed;
            self.context.tell(attachment, reason, is_trouble);
        }
        Ok(recorded.object)
    }
}

/// What the array says about an attachment. What the node says stays.
fn describe(
    status: &mut VolumeAttachmentStatus,
    attach_type: &AttachType,
    attached: &AttachedServer,
) {
    status.vpsa_server_id = Some(attached.server.id.to_string());
    if *attach_type != AttachType::Iscsi {
        status.nas = Some(Unknown::new());
        return;
    }
    // As long as the array is at it there is no disk to describe.
    let Some((target, lun)) = attached.disk() else {
        return;
    };
    let known = status.block.take().unwrap_or_default();
    let session = known.iscsi_status.clone();
    status.block = Some(BlockAttachment {
        lun: i64::try_from(lun).unwrap_or(i64::MAX),
        target: target.to_owned(),
        iscsi_status: Some(session.unwrap_or_default()),
        initiator: Some(attached.server.iqn.clone()).filter(|it| !it.is_empty()),
        ..known
    });
}
