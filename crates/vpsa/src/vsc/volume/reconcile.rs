//! Does the steps.

mod array;
mod choose;
mod look;
mod make;
mod source;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use stowage_api::quantity;
use stowage_api::vpsa::{FORCE_DELETE, NasVolume, Volume, VolumeState, VolumeStatus};
use stowage_kubernetes::queue::{Queue, Verdict};

use self::look::{Look, Seen};
use super::has_begun;
use super::step::{EXPANDING, NOT_TAKEN, Observed, REFUSED, Step, is_trouble, next_step};
use super::wanted::Wanted;
use crate::rest::wire::Volume as ArrayVolume;
use crate::vsc::allocator::Allocator;
use crate::vsc::cluster::of_volume;
use crate::vsc::condition::Reason;
use crate::vsc::context::{Context, LATER, SOON};
use crate::vsc::error::StepError;
use crate::vsc::write::is_held;

/// How soon it is looked again at what an array shows of a volume that is therefore not deleted: it may be behind.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps Volumes.
pub struct Volumes {
    /// What all kinds have.
    pub context: Arc<Context>,
    /// How arrays are chosen.
    pub allocator: Allocator,
    /// Where arrays wait that are to be looked at.
    pub arrays: Queue,
    /// What is deleted does not stay in the recycle bin.
    pub empties_bin: bool,
}

impl Volumes {
    /// Does what is to be done for one volume.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.context.cluster.volumes.store().get(name) else {
            return Verdict::Done;
        };
        let done = self.work(name).await;
        self.context.verdict(&kept.object, done).await
    }

    async fn work(&self, name: &str) -> Result<Verdict, StepError> {
        // What is known may be older than what we wrote ourselves.
        let Some(mut volume) = self.context.writer.read::<Volume>(name).await? else {
            return Ok(Verdict::Done);
        };
        let mut look = Look::default();
        let mut last = None;
        loop {
            let wanted = self.wanted(&volume);
            let step = self.next(&volume, &wanted, &look);
            let now = match &step {
                Step::Rest => return Ok(Verdict::Done),
                step if look.is_under_way(step) => return Ok(Verdict::After(SOON, None)),
                Step::LetGo => {
                    self.context.writer.let_go(&volume).await?;
                    self.context.reserved.release(name);
                    return Ok(Verdict::Done);
                }
                Step::Ask => {
                    look.seen = self.ask_or_give_up(&volume, &mut look).await?;
                    if look.seen.is_some() {
                        continue;
                    }
                    self.context.writer.read(name).await?
                }
                Step::Record(state, reason) if last.as_ref() == Some(&step) => {
                    return Ok(when_to_look_again(state, reason, &volume));
                }
                Step::Record(state, reason) => {
                    Some(self.record(&volume, state, reason, &look).await?)
                }
                Step::Hold => self.context.writer.hold(&volume).await?,
                Step::Choose => Some(self.choose(&volume, &wanted).await?),
                Step::Check => {
                    self.check(&volume).await?;
                    look.checked = true;
                    continue;
                }
                Step::Begin => {
                    look.fresh = true;
                    Some(self.begin(&volume).await?)
                }
                change => {
                    look.seen = self.change(&volume, &wanted, change, &mut look).await?;
                    self.context.writer.read(name).await?
                }
            };
            last = Some(step);
            let Some(now) = now else {
                return Ok(Verdict::Done);
            };
            volume = now;
        }
    }

    fn wanted(&self, volume: &Volume) -> Result<Wanted, String> {
        let class = self
            .context
            .cluster
            .classes
            .store()
            .get(&volume.spec.vsc_storage_class_name);
        let flags = class
            .as_ref()
            .and_then(|it| it.object.spec.volume_flags.as_ref());
        Wanted::read(&volume.spec, flags)
    }

    fn next(&self, volume: &Volume, wanted: &Result<Wanted, String>, look: &Look) -> Step {
        let name = volume.name_any();
        let status = volume.status.clone().unwrap_or_default();
        let (cluster, group) = (&self.context.cluster, of_volume(&name));
        let observed = Observed {
            held: is_held(volume),
            deleting: volume.metadata.deletion_timestamp.is_some(),
            array: &status.vpsa_id,
            names: [
                &volume.spec.display_name,
                status.display_name.as_deref().unwrap_or_default(),
            ],
            id: &status.id,
            group: &status.cg_id,
            is_clone: volume.spec.clone_source.is_some(),
            began: has_begun(&status),
            pending: self.context.may_come(status.asked.as_ref()),
            checked: look.checked,
            fresh: look.fresh,
            found: look.seen.as_ref().map(Seen::as_found),
            snapshots: cluster.snapshots.store().count_in_group(&group),
            attachments: cluster.attachments.store().count_in_group(&group),
            asked: look.asked,
            expanding: self.is_expanding(&status),
            renamed: look.changes.contains(&Step::Rename),
            commented: look.changes.contains(&Step::Comment),
            forced: volume
                .annotations()
                .get(FORCE_DELETE)
                .map_or("", String::as_str),
            empties_bin: self.empties_bin,
        };
        next_step(wanted, &observed)
    }

    /// Whether the array was asked to make it larger so lately that it may still do so.
    fn is_expanding(&self, status: &VolumeStatus) -> bool {
        let patience = SignedDuration::try_from(self.context.patience).unwrap_or_default();
        status.expansion.as_ref().is_some_and(|expansion| {
            let since = Timestamp::now().duration_since(expansion.since.0);
            status.capacity.as_ref() == Some(&expansion.from) && since < patience
        })
    }

    /// Says how a volume is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        volume: &Volume,
        state: &VolumeState,
        reason: &Reason,
        look: &Look,
    ) -> Result<Volume, StepError> {
        let mut now = volume.status.clone().unwrap_or_default();
        now.state = state.clone();
        match &look.seen {
            // What is taken for another volume tells nothing about this one: the next look would take it for this.
            Some(Seen::Volume(_)) if REFUSED.contains(&reason.word) => {}
            Some(Seen::Volume(found)) => describe(&mut now, found),
            // Somebody else has the name: what was asked for has come to nothing.
            Some(Seen::Foreign(_)) => now.asked = None,
            _ => {}
        }
        let recorded = self.context.record(volume, now, reason).await?;
        if recorded.is_news {
            self.context.tell(volume, reason, is_trouble(state, reason));
        }
        Ok(recorded.object)
    }
}

/// When a volume is looked at again although nothing about it has changed.
fn when_to_look_again(state: &VolumeState, reason: &Reason, volume: &Volume) -> Verdict {
    let grows = volume
        .status
        .as_ref()
        .is_some_and(|it| it.expansion.is_some());
    match state {
        VolumeState::Deleting if REFUSED.contains(&reason.word) => Verdict::After(AGAIN, None),
        VolumeState::Provisioning | VolumeState::Cloning | VolumeState::Deleting => {
            Verdict::After(SOON, None)
        }
        // Until the growth is seen, or was in vain.
        _ if grows || reason.word == EXPANDING => Verdict::After(SOON, None),
        VolumeState::Failed => Verdict::After(LATER, None),
        _ if reason.word == NOT_TAKEN => Verdict::After(LATER, None),
        _ => Verdict::Done,
    }
}

/// What the array says about a volume.
fn describe(status: &mut VolumeStatus, volume: &ArrayVolume) {
    let text = |id: Option<String>| id.unwrap_or_default();
    status.asked = None;
    status.id = volume.id.to_string();
    status.display_name = Some(volume.display_name.clone());
    status.cg_id = text(volume.cg.as_ref().map(ToString::to_string));
    status.pool_id = text(volume.pool.as_ref().map(ToString::to_string));
    status.capacity = Some(capacity(volume));
    if status.expansion.as_ref().map(|it| &it.from) != status.capacity.as_ref() {
        status.expansion = None;
    }
    if !volume.nfs_export_path.is_empty() {
        let known = status.nas.take().unwrap_or_default();
        status.nas = Some(NasVolume {
            nfs_export_path: volume.nfs_export_path.clone(),
            auto_expand_enabled: volume.autoexpand,
            ..known
        });
    }
}

/// How large a volume is.
pub fn capacity(volume: &ArrayVolume) -> Quantity {
    let gigabytes = i64::try_from(volume.virtual_capacity).unwrap_or(i64::MAX);
    Quantity(quantity::text(gigabytes.saturating_mul(1 << 30)))
}
