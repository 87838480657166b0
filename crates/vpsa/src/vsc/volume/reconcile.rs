//! Does the steps.

mod array;
mod look;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Resource as _, ResourceExt as _};
use stowage_api::causes::chain;
use stowage_api::quantity;
use stowage_api::vpsa::{NasVolume, Volume, VolumeState, VolumeStatus};
use stowage_kubernetes::events::Events;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::Verdict;

use self::look::{Look, Seen};
use super::step::{Observed, Step, next_step};
use super::wanted::Wanted;
use crate::rest::ApiError;
use crate::rest::wire::Volume as ArrayVolume;
use crate::vsc::allocator::{Allocator, NoArray};
use crate::vsc::array::step::Trouble;
use crate::vsc::clients::Clients;
use crate::vsc::cluster::{Cluster, of_volume};
use crate::vsc::condition::{self, Reason};
use crate::vsc::write::{Writer, is_held};

/// How soon it is looked again at what the array is busy with.
const SOON: Duration = Duration::from_millis(500);

/// Keeps Volumes.
pub struct Volumes {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// Clients of arrays.
    pub clients: Arc<Clients>,
    /// Writes objects.
    pub writer: Writer,
    /// Tells people.
    pub events: Events,
    /// How arrays are chosen.
    pub allocator: Allocator,
    /// How long an array may take for one volume.
    pub patience: Duration,
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The API server.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The array, or its description.
    #[error(transparent)]
    Array(#[from] Trouble),
    /// No array takes it.
    #[error(transparent)]
    Allocation(#[from] NoArray),
    /// Something that it names is not there.
    #[error("{0}")]
    Missing(String),
}

impl From<ApiError> for StepError {
    fn from(error: ApiError) -> Self {
        Self::Array(error.into())
    }
}

impl StepError {
    /// One word, for programs.
    fn word(&self) -> &'static str {
        match self {
            Self::Object(_) => "ApiServer",
            Self::Array(_) => "ArrayFailed",
            Self::Allocation(_) => "NoArray",
            Self::Missing(_) => "SourceMissing",
        }
    }
}

impl Volumes {
    /// Does what is to be done for one volume.
    pub async fn reconcile(&self, name: &str) -> Verdict {
        let Some(kept) = self.cluster.volumes.store().get(name) else {
            return Verdict::Done;
        };
        let error = match self.work(kept.object.clone()).await {
            Ok(verdict) => return verdict,
            Err(error) => error,
        };
        match &error {
            // Somebody else was faster: what they wrote comes with the watch.
            StepError::Object(error) if error.is_stale() => return Verdict::After(SOON, None),
            StepError::Object(_) => {}
            StepError::Array(_) | StepError::Allocation(_) | StepError::Missing(_) => {
                self.report(&kept.object, &error).await;
            }
        }
        let text = chain(&error);
        tracing::warn!(volume = name, error = text, "Trying again.");
        Verdict::Retry(text)
    }

    async fn work(&self, mut volume: Volume) -> Result<Verdict, StepError> {
        let mut look = Look::default();
        let mut last = None;
        loop {
            let wanted = self.wanted(&volume);
            let step = self.next(&volume, &wanted, &look);
            match &step {
                Step::Rest => return Ok(Verdict::Done),
                Step::LetGo => {
                    self.writer.let_go(&volume).await?;
                    return Ok(Verdict::Done);
                }
                Step::Ask => {
                    look.seen = Some(self.ask(&volume).await?);
                    continue;
                }
                Step::Record(state, _) if last.as_ref() == Some(&step) => {
                    return Ok(match state {
                        VolumeState::Provisioning
                        | VolumeState::Cloning
                        | VolumeState::Deleting => Verdict::After(SOON, None),
                        _ => Verdict::Done,
                    });
                }
                Step::Record(state, reason) => self.record(&volume, state, reason, &look).await?,
                Step::Hold => self.writer.hold(&volume).await?,
                Step::Choose => self.choose(&volume, &wanted).await?,
                change => {
                    self.change(&volume, &wanted, change, &mut look).await?;
                    look.seen = None;
                }
            }
            last = Some(step);
            match self.writer.read(&volume.name_any()).await? {
                Some(now) => volume = now,
                None => return Ok(Verdict::Done),
            }
        }
    }

    fn wanted(&self, volume: &Volume) -> Result<Wanted, String> {
        let class = self
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
        let group = of_volume(&name);
        let observed = Observed {
            held: is_held(volume),
            deleting: volume.metadata.deletion_timestamp.is_some(),
            array: &status.vpsa_id,
            id: &status.id,
            group: &status.cg_id,
            is_clone: volume.spec.clone_source.is_some(),
            found: look.seen.as_ref().map(Seen::as_found),
            snapshots: self.cluster.snapshots.store().count_in_group(&group),
            attachments: self.cluster.attachments.store().count_in_group(&group),
            asked: look.asked,
        };
        next_step(wanted, &observed)
    }

    /// Says how a volume is, if that is news. Called twice: it is said.
    async fn record(
        &self,
        volume: &Volume,
        state: &VolumeState,
        reason: &Reason,
        look: &Look,
    ) -> Result<(), StepError> {
        let before = volume.status.clone().unwrap_or_default();
        let mut now = VolumeStatus {
            state: state.clone(),
            ..before.clone()
        };
        if let Some(Seen::Volume(found)) = &look.seen {
            describe(&mut now, found);
        }
        let (generation, moment) = (volume.metadata.generation, Timestamp::now());
        now.observed = condition::observed(&before.observed, generation, reason, moment);
        if volume.status.as_ref() == Some(&now) {
            return Ok(());
        }
        self.writer.set_status(volume, &now).await?;
        let word = condition::ready(&before.observed).map(|it| it.reason.as_str());
        if word == Some(reason.word) {
            return Ok(());
        }
        tracing::info!(volume = volume.name_any(), %state, reason = reason.message, "The Volume changed.");
        let object = volume.object_ref(&());
        if *state == VolumeState::Failed {
            self.events
                .warning(object, reason.word, reason.message.as_str());
        } else {
            self.events
                .normal(object, reason.word, reason.message.as_str());
        }
        Ok(())
    }

    /// Tells people why it does not go on; the state stays as it is.
    async fn report(&self, volume: &Volume, error: &StepError) {
        let message = chain(error);
        let object = volume.object_ref(&());
        self.events.warning(object, error.word(), message.as_str());
        let state = volume.status.as_ref().map(|status| status.state.clone());
        let reason = Reason::not_ready(error.word(), message);
        let Ok(Some(now)) = self.writer.read::<Volume>(&volume.name_any()).await else {
            return;
        };
        let mut status = now.status.clone().unwrap_or_default();
        let generation = now.metadata.generation;
        status.observed =
            condition::observed(&status.observed, generation, &reason, Timestamp::now());
        if now.status.as_ref() != Some(&status) || state.is_none() {
            // The next attempt says it again.
            let _ = self.writer.set_status(&now, &status).await;
        }
    }
}

/// What the array says about a volume.
fn describe(status: &mut VolumeStatus, volume: &ArrayVolume) {
    let text = |id: Option<String>| id.unwrap_or_default();
    status.id = volume.id.to_string();
    status.cg_id = text(volume.cg.as_ref().map(ToString::to_string));
    status.pool_id = text(volume.pool.as_ref().map(ToString::to_string));
    let gigabytes = i64::try_from(volume.virtual_capacity).unwrap_or(i64::MAX);
    status.capacity = Some(Quantity(quantity::text(gigabytes.saturating_mul(1 << 30))));
    if !volume.nfs_export_path.is_empty() {
        let known = status.nas.take().unwrap_or_default();
        status.nas = Some(NasVolume {
            nfs_export_path: volume.nfs_export_path.clone(),
            auto_expand_enabled: volume.autoexpand,
            ..known
        });
    }
}
