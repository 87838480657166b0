//! Does the steps.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stowage_api::vpsa::{
    DeletionPolicy, Snapshot, SnapshotState, SnapshotStatus, VolumeState, VolumeStatus,
};
use stowage_kubernetes::queue::Verdict;

use super::step::{Found, OTHER, Observed, Step, next_step};
use crate::rest::wire::Snapshot as ArraySnapshot;
use crate::rest::{CgId, Outcome, Refusal, SnapshotId, VolumeId};
use crate::vsc::cluster::on_array;
use crate::vsc::condition::Reason;
use crate::vsc::context::{Context, LATER, SOON};
use crate::vsc::error::StepError;
use crate::vsc::volume::reconcile::capacity;
use crate::vsc::write::is_held;

/// Keeps Snapshots.
pub struct Snapshots {
    /// What all kinds have.
    pub context: Arc<Context>,
}

/// What is known of a snapshot in the course of one look at it.
#[derive(Default)]
struct Look {
    seen: Option<Seen>,
    asked: bool,
}

/// What the array has.
enum Seen {
    Snapshot(Box<ArraySnapshot>),
    Foreign(Box<ArraySnapshot>),
    Nothing,
}

impl Snapshots {
    /// Does what is to be done for one snapshot.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.context.cluster.snapshots.store().get(name) else {
            return Verdict::Done;
        };
        let done = self.work(name).await;
        self.context.verdict(&kept.object, done).await
    }

    async fn work(&self, name: &str) -> Result<Verdict, StepError> {
        // What is known may be older than what we wrote ourselves.
        let Some(mut snapshot) = self.context.writer.read::<Snapshot>(name).await? else {
            return Ok(Verdict::Done);
        };
        let mut look = Look::default();
        let mut last = None;
        loop {
            let step = self.next(&snapshot, &look);
            let now = match &step {
                Step::Rest => return Ok(Verdict::Done),
                Step::LetGo => {
                    self.context.writer.let_go(&snapshot).await?;
                    return Ok(Verdict::Done);
                }
                Step::Ask => {
                    look.seen = Some(self.ask(&snapshot).await?);
                    continue;
                }
                Step::Record(state, reason) if last.as_ref() == Some(&step) => {
                    return Ok(match state {
                        _ if reason.word == OTHER => Verdict::After(LATER, None),
                        SnapshotState::TakingSnapshot | SnapshotState::Deleting => {
                            Verdict::After(SOON, None)
                        }
                        SnapshotState::Failed => Verdict::After(LATER, None),
                        _ => Verdict::Done,
                    });
                }
                Step::Record(state, reason) => {
                    Some(self.record(&snapshot, state, reason, &look).await?)
                }
                // The array is at it.
                Step::Delete if look.asked => return Ok(Verdict::After(SOON, None)),
                Step::Hold => self.context.writer.hold(&snapshot).await?,
                Step::Locate => Some(self.locate(&snapshot).await?),
                change => {
                    self.change(&snapshot, change, &look).await?;
                    look = Look {
                        asked: true,
                        seen: None,
                    };
                    self.context.writer.read(name).await?
                }
            };
            last = Some(step);
            let Some(now) = now else {
                return Ok(Verdict::Done);
            };
            snapshot = now;
        }
    }

    fn next(&self, snapshot: &Snapshot, look: &Look) -> Step {
        let status = snapshot.status.clone().unwrap_or_default();
        let volume = self.volume(snapshot);
        next_step(&Observed {
            held: is_held(snapshot),
            deleting: snapshot.metadata.deletion_timestamp.is_some(),
            retain: snapshot.spec.deletion_policy == Some(DeletionPolicy::Retain),
            name: &snapshot.spec.display_name,
            array: status.vpsa_id.as_deref().unwrap_or_default(),
            id: status.vpsa_snapshot_id.as_deref().unwrap_or_default(),
            group: status.cg_id.as_deref().unwrap_or_default(),
            volume: volume.as_ref().map(|_| ()).map_err(String::as_str),
            found: look.seen.as_ref().map(|seen| match seen {
                Seen::Snapshot(it) => Found::Snapshot(it),
                Seen::Foreign(it) => Found::Foreign(it),
                Seen::Nothing => Found::Nothing,
            }),
            asked: look.asked,
            pending: self.context.may_come(status.asked.as_ref()),
        })
    }

    /// Where its volume is. The error is for people.
    fn volume(&self, snapshot: &Snapshot) -> Result<VolumeStatus, String> {
        let name = &snapshot.spec.volume_id;
        let kept = self.context.cluster.volumes.store().get(name);
        let kept = kept.ok_or_else(|| format!("Volume `{name}` does not exist"))?;
        let status = kept.object.status.clone().unwrap_or_default();
        if status.state == VolumeState::Ready && !status.cg_id.is_empty() {
            return Ok(status);
        }
        Err(format!("Volume `{name}` is {}", status.state))
    }

    /// Records where it is to be taken. Called twice: it is recorded.
    async fn locate(&self, snapshot: &Snapshot) -> Result<Snapshot, StepError> {
        let volume = self.volume(snapshot).map_err(StepError::Missing)?;
        let status = SnapshotStatus {
            state: SnapshotState::Creating,
            vpsa_id: Some(volume.vpsa_id),
            cg_id: Some(volume.cg_id),
            pool_id: Some(volume.pool_id),
            vpsa_volume_id: Some(volume.id),
            ..snapshot.status.clone().unwrap_or_default()
        };
        Ok(self.context.writer.set_status(snapshot, &status).await?)
    }

    /// What the array has.
    async fn ask(&self, snapshot: &Snapshot) -> Result<Seen, StepError> {
        let status = snapshot.status.clone().unwrap_or_default();
        let api = self.context.api(array_of(&status)).await?;
        if let Some(id) = status.vpsa_snapshot_id.as_deref() {
            let id: Option<SnapshotId> = id.parse().ok();
            let found = match &id {
                Some(id) => api.snapshot(id).await?,
                None => None,
            };
            return Ok(found.map_or(Seen::Nothing, |it| Seen::Snapshot(Box::new(it))));
        }
        let Some(group) = group_of(&status) else {
            return Ok(Seen::Nothing);
        };
        let name = &snapshot.spec.display_name;
        let mut all = api.group_snapshots(&group).await?.into_iter();
        let found = all.find(|it| it.display_name == *name);
        Ok(match found.map(Box::new) {
            None => Seen::Nothing,
            // Nobody has asked for it, so it is not ours, whatever it is called.
            Some(found) if !has_begun(&status) => Seen::Foreign(found),
            Some(found) if self.is_foreign(snapshot, array_of(&status), &found.id) => {
                Seen::Foreign(found)
            }
            Some(found) => Seen::Snapshot(found),
        })
    }

    /// Whether a snapshot of an array is another object's.
    fn is_foreign(&self, snapshot: &Snapshot, array: &str, id: &SnapshotId) -> bool {
        let known = self.context.cluster.snapshots.store();
        known.in_group(&on_array(array)).iter().any(|it| {
            let status = it.object.status.as_ref();
            it.object.name_any() != snapshot.name_any()
                && status.and_then(|status| status.vpsa_snapshot_id.as_deref()) == Some(id.as_str())
        })
    }

    /// Changes something on the array. What it only takes on is seen by the next look.
    async fn change(&self, snapshot: &Snapshot, step: &Step, look: &Look) -> Result<(), StepError> {
        let status = snapshot.status.clone().unwrap_or_default();
        let api = self.context.api(array_of(&status)).await?;
        let done = match (step, &look.seen) {
            (Step::Take, _) => return self.take(snapshot, status).await,
            (Step::Rename, Some(Seen::Snapshot(found))) => {
                let name = &snapshot.spec.display_name;
                api.rename_snapshot(&found.id, name).await?
            }
            (Step::Delete, Some(Seen::Snapshot(found))) => {
                // Known from now on, whatever it is called.
                self.record_deletion(snapshot, found).await?;
                api.delete_snapshot(&found.id).await?
            }
            _ => Outcome::Done(()),
        };
        if done == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// Called twice: it is found by its name before, or the array says that the name is taken.
    async fn take(&self, snapshot: &Snapshot, status: SnapshotStatus) -> Result<(), StepError> {
        let api = self.context.api(array_of(&status)).await?;
        let volume: Option<VolumeId> = status
            .vpsa_volume_id
            .as_deref()
            .and_then(|it| it.parse().ok());
        let (Some(group), Some(volume)) = (group_of(&status), volume) else {
            return Err(StepError::Missing(
                "its status does not say where its volume is".to_owned(),
            ));
        };
        // Only the list of all snapshots would tell how large the volume was.
        let size = api.volume(&volume).await?.as_ref().map(capacity);
        let asked = SnapshotStatus {
            state: SnapshotState::TakingSnapshot,
            size,
            asked: Some(Time(Timestamp::now())),
            ..status.clone()
        };
        let written = self.context.writer.set_status(snapshot, &asked).await?;
        let name = &snapshot.spec.display_name;
        let error = match api.create_snapshot(&group, name).await {
            Ok(Outcome::Done(_)) => return Ok(()),
            Ok(Outcome::Submitted) => {
                tokio::time::sleep(SOON).await;
                return Ok(());
            }
            Err(error) => error,
        };
        let is_taken = error.refusal() == Some(Refusal::NameTaken);
        // By a call whose answer was lost, or by somebody else: the next look tells.
        if is_taken && has_begun(&status) {
            return Ok(());
        }
        // Nothing came of it, so it counts as not asked for.
        if error.is_final() {
            self.context.writer.set_status(&written, &status).await?;
        }
        if is_taken { Ok(()) } else { Err(error.into()) }
    }

    async fn record_deletion(
        &self,
        snapshot: &Snapshot,
        found: &ArraySnapshot,
    ) -> Result<(), StepError> {
        let before = snapshot.status.clone().unwrap_or_default();
        let mut status = SnapshotStatus {
            state: SnapshotState::Deleting,
            ..before.clone()
        };
        describe(&mut status, found);
        if status != before {
            self.context.writer.set_status(snapshot, &status).await?;
        }
        Ok(())
    }

    /// Says how a snapshot is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        snapshot: &Snapshot,
        state: &SnapshotState,
        reason: &Reason,
        look: &Look,
    ) -> Result<Snapshot, StepError> {
        let mut now = snapshot.status.clone().unwrap_or_default();
        now.state = state.clone();
        if let Some(Seen::Snapshot(found)) = &look.seen {
            describe(&mut now, found);
        }
        let recorded = self.context.record(snapshot, now, reason).await?;
        if recorded.is_news {
            let is_trouble = *state == SnapshotState::Failed || reason.word == OTHER;
            self.context.tell(snapshot, reason, is_trouble);
        }
        Ok(recorded.object)
    }
}

/// Whether the array may have been asked to take a snapshot. Zadara's driver says so by the state alone.
fn has_begun(status: &SnapshotStatus) -> bool {
    let is_new = matches!(
        status.state,
        SnapshotState::Creating | SnapshotState::Failed
    );
    status.asked.is_some() || !is_new
}

fn array_of(status: &SnapshotStatus) -> &str {
    status.vpsa_id.as_deref().unwrap_or_default()
}

fn group_of(status: &SnapshotStatus) -> Option<CgId> {
    status.cg_id.as_deref()?.parse().ok()
}

/// What the array says about a snapshot.
fn describe(status: &mut SnapshotStatus, snapshot: &ArraySnapshot) {
    status.asked = None;
    status.vpsa_snapshot_id = Some(snapshot.id.to_string());
    if let Some(moment) = snapshot.created_at {
        status.created_timestamp = Some(Time(moment));
    }
}
