//! The steps that talk to an array.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stowage_api::vpsa::{Expansion, Unknown, Volume, VolumeState, VolumeStatus};

use super::Volumes;
use super::look::{Look, Seen};
use crate::rest::wire::Volume as ArrayVolume;
use crate::rest::{Api, ApiError, Outcome, PoolId, Refusal, VolumeId};
use crate::vsc::cluster::on_array;
use crate::vsc::context::SOON;
use crate::vsc::error::StepError;
use crate::vsc::volume::has_begun;
use crate::vsc::volume::step::{Step, how_to_force};
use crate::vsc::volume::wanted::Wanted;

impl Volumes {
    /// What the array has.
    pub(super) async fn ask(&self, volume: &Volume) -> Result<Seen, StepError> {
        let status = volume.status.clone().unwrap_or_default();
        let api = self.context.api(&status.vpsa_id).await?;
        if let Ok(id) = status.id.parse::<VolumeId>() {
            if let Some(found) = api.volume(&id).await? {
                return Ok(Seen::Volume(Box::new(found)));
            }
            return self.in_bin(&api, &status, |it| it.id == id).await;
        }
        let name = &volume.spec.display_name;
        let Some(found) = api.volume_named(name).await? else {
            return Ok(Seen::Nothing);
        };
        // Nobody has asked for it, so it is not ours, whatever it is called.
        let is_unasked = !has_begun(&status);
        Ok(
            if is_unasked || self.is_foreign(volume, &status.vpsa_id, &found.id) {
                Seen::Foreign(Box::new(found))
            } else {
                Seen::Volume(Box::new(found))
            },
        )
    }

    /// Whether a volume of an array is somebody else's, or another object's.
    fn is_foreign(&self, volume: &Volume, array: &str, id: &VolumeId) -> bool {
        let group = on_array(array);
        let is_it = |status: &Option<VolumeStatus>| {
            status
                .as_ref()
                .is_some_and(|status| status.id == id.as_str())
        };
        let external = self
            .context
            .cluster
            .external_volumes
            .store()
            .in_group(&group);
        let own = self.context.cluster.volumes.store().in_group(&group);
        external.iter().any(|it| is_it(&it.object.status))
            || own
                .iter()
                .any(|it| it.object.name_any() != volume.name_any() && is_it(&it.object.status))
    }

    async fn in_bin(
        &self,
        api: &Api,
        status: &VolumeStatus,
        is_it: impl Fn(&ArrayVolume) -> bool,
    ) -> Result<Seen, StepError> {
        let Ok(pool) = status.pool_id.parse::<PoolId>() else {
            return Ok(Seen::Nothing);
        };
        let mut deleted = api.recycle_bin(&pool).await?.into_iter();
        let found = deleted.find(is_it);
        Ok(found.map_or(Seen::Nothing, |it| Seen::Deleted(Box::new(it))))
    }

    /// Changes something on the array; what it has then, if that is known without asking. What it only takes on is seen by
    /// the next look.
    pub(super) async fn change(
        &self,
        object: &Volume,
        wanted: &Result<Wanted, String>,
        step: &Step,
        look: &mut Look,
    ) -> Result<Option<Seen>, StepError> {
        let status = object.status.clone().unwrap_or_default();
        let api = self.context.api(&status.vpsa_id).await?;
        let seen = look.seen.take();
        look.changes.push(step.clone());
        if let (Step::Expand(more), Some(Seen::Volume(volume))) = (step, &seen) {
            self.expand(&api, object, volume, *more).await?;
            return Ok(None);
        }
        if let (Step::Create | Step::Clone, Ok(wanted)) = (step, wanted) {
            return self.make(&api, object, wanted, look).await;
        }
        let Some(Seen::Volume(volume) | Seen::Deleted(volume)) = &seen else {
            return Ok(None);
        };
        let id = &volume.id;
        let (done, then) = match (step, wanted) {
            (Step::Rename, Ok(wanted)) => (api.rename_volume(id, &wanted.name).await?, None),
            (Step::Comment, Ok(wanted)) => {
                let comment = wanted.comment.as_deref().unwrap_or_default();
                (api.comment_volume(id, comment).await?, None)
            }
            (Step::Delete | Step::DeleteByForce, _) => {
                // Known from now on, so that it is found in the recycle bin.
                self.remember(object, volume).await?;
                let by_force = *step == Step::DeleteByForce;
                let done = api.delete_volume(id, by_force).await;
                let done = done.map_err(|error| undeleted(volume, by_force, error))?;
                (done, Some(Seen::Deleted(volume.clone())))
            }
            (Step::Purge, _) => (api.purge_volume(id).await?, Some(Seen::Nothing)),
            _ => (Outcome::Done(()), None),
        };
        if done == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
            return Ok(None);
        }
        Ok(then)
    }

    async fn remember(&self, volume: &Volume, found: &ArrayVolume) -> Result<(), StepError> {
        let before = volume.status.clone().unwrap_or_default();
        let mut status = VolumeStatus {
            state: VolumeState::Deleting,
            ..before.clone()
        };
        super::describe(&mut status, found);
        if status != before {
            self.context.writer.set_status(volume, &status).await?;
        }
        Ok(())
    }

    /// Makes a volume larger. The array takes what is added, so that is written down before it is asked: whoever finds it
    /// there waits for the growth before adding it again.
    async fn expand(
        &self,
        api: &Api,
        object: &Volume,
        volume: &ArrayVolume,
        more: u64,
    ) -> Result<(), StepError> {
        let mut status = object.status.clone().unwrap_or_default();
        super::describe(&mut status, volume);
        status.expansion = status.capacity.clone().map(|from| Expansion {
            from,
            since: Time(Timestamp::now()),
            unknown: Unknown::new(),
        });
        let writer = &self.context.writer;
        let written = writer.set_status(object, &status).await?;
        let asked = api.expand_volume(&volume.id, more).await;
        if asked.as_ref().is_err_and(|error| error.refusal().is_some()) {
            self.take_back(written).await?;
        }
        if asked? == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// Takes back what was `written` down of an expansion that the array refused. Whoever wants another size by then has changed
    /// the object, and must not wait for this one.
    async fn take_back(&self, written: Volume) -> Result<(), StepError> {
        let writer = &self.context.writer;
        let expansion = |of: &Volume| of.status.as_ref().and_then(|it| it.expansion.clone());
        let refused = expansion(&written);
        let mut known = Some(written);
        while let Some(object) = known.filter(|it| expansion(it) == refused) {
            let status = VolumeStatus {
                expansion: None,
                ..object.status.clone().unwrap_or_default()
            };
            match writer.set_status(&object, &status).await {
                Err(error) if error.is_stale() => known = writer.read(&object.name_any()).await?,
                done => return Ok(done.map(drop)?),
            }
        }
        Ok(())
    }
}

/// An array says no to whoever does not insist. What it is only busy with comes to its end.
fn undeleted(volume: &ArrayVolume, by_force: bool, error: ApiError) -> StepError {
    match error.refusal() {
        Some(refusal) if refusal != Refusal::Busy && !by_force => StepError::Undeleted {
            remedy: how_to_force(volume.id.as_str()),
            source: Box::new(error),
        },
        _ => error.into(),
    }
}
