//! The steps that talk to an array.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stowage_api::vpsa::{CloneSourceKind, Expansion, Unknown, Volume, VolumeState, VolumeStatus};

use super::Volumes;
use super::look::{Look, Seen};
use crate::rest::api::NewVolume;
use crate::rest::wire::Volume as ArrayVolume;
use crate::rest::{Api, CgId, Outcome, PoolId, Refusal, SnapshotId, VolumeId, follow};
use crate::vsc::array::Facts;
use crate::vsc::cluster::on_array;
use crate::vsc::context::SOON;
use crate::vsc::error::StepError;
use crate::vsc::volume::step::Step;
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
        Ok(if self.is_foreign(volume, &status.vpsa_id, &found.id) {
            Seen::Foreign(Box::new(found))
        } else {
            Seen::Volume(Box::new(found))
        })
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

    /// Changes something on the array. What it only takes on is seen by the next look.
    pub(super) async fn change(
        &self,
        object: &Volume,
        wanted: &Result<Wanted, String>,
        step: &Step,
        look: &mut Look,
    ) -> Result<(), StepError> {
        let status = object.status.clone().unwrap_or_default();
        let api = self.context.api(&status.vpsa_id).await?;
        let id = match &look.seen {
            Some(Seen::Volume(it) | Seen::Deleted(it)) => Some(it.id.clone()),
            _ => None,
        };
        if let (Step::Expand(more), Some(Seen::Volume(volume))) = (step, &look.seen) {
            return self.expand(&api, object, volume, *more).await;
        }
        let done = match (step, id, wanted) {
            (Step::Create, _, Ok(wanted)) => {
                look.asked = true;
                return self.create(&api, object, wanted).await;
            }
            (Step::Clone, _, Ok(wanted)) => {
                look.asked = true;
                return self.copy(&api, object, wanted).await;
            }
            (Step::Rename, Some(id), Ok(wanted)) => api.rename_volume(&id, &wanted.name).await?,
            (Step::Comment, Some(id), Ok(wanted)) => {
                let comment = wanted.comment.as_deref().unwrap_or_default();
                api.comment_volume(&id, comment).await?
            }
            (Step::Delete, Some(id), _) => {
                // Known from now on, so that it is found in the recycle bin.
                self.remember(object, look).await?;
                api.delete_volume(&id).await?
            }
            (Step::Purge, Some(id), _) => api.purge_volume(&id).await?,
            _ => Outcome::Done(()),
        };
        if done == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    async fn remember(&self, volume: &Volume, look: &Look) -> Result<(), StepError> {
        let Some(Seen::Volume(found)) = &look.seen else {
            return Ok(());
        };
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

    /// Called twice: it is found by its name before.
    async fn create(&self, api: &Api, volume: &Volume, wanted: &Wanted) -> Result<(), StepError> {
        let class = self
            .context
            .cluster
            .classes
            .store()
            .get(&volume.spec.vsc_storage_class_name);
        let pool = class
            .as_ref()
            .and_then(|it| it.object.spec.pool_name.as_deref());
        let facts = Facts::of_pools(api.pools().await?);
        let pool = facts.pool(pool).map_err(StepError::Missing)?;
        let new = NewVolume {
            name: &wanted.name,
            capacity: wanted.gigabytes,
            pool: &pool.id,
            kind: wanted.kind,
            options: &wanted.options,
        };
        match api.create_volume(&new).await {
            Ok(Outcome::Done(_)) => Ok(()),
            Ok(Outcome::Submitted) => self.follow(api, &wanted.name).await,
            // It was made by a call whose answer was lost, or somebody else has the name: the next look tells.
            Err(error) if error.refusal() == Some(Refusal::NameTaken) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Called twice: it is found by its name before, or the array says that the name is taken.
    async fn copy(&self, api: &Api, volume: &Volume, wanted: &Wanted) -> Result<(), StepError> {
        let Some(source) = self.source(volume)? else {
            return Ok(());
        };
        let made = api.clone_volume(&source.group, &wanted.name, source.snapshot.as_ref());
        let group = match made.await {
            Ok(Outcome::Done(group)) => Some(group),
            Ok(Outcome::Submitted) => return self.follow(api, &wanted.name).await,
            Err(error) if error.refusal() == Some(Refusal::NameTaken) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(group) = group {
            let status = VolumeStatus {
                state: VolumeState::Cloning,
                cg_id: group.to_string(),
                ..volume.status.clone().unwrap_or_default()
            };
            self.context.writer.set_status(volume, &status).await?;
        }
        Ok(())
    }

    /// Waits until what the array has taken on is seen.
    async fn follow(&self, api: &Api, name: &str) -> Result<(), StepError> {
        let look = || async { Ok(api.volume_named(name).await?.map(drop)) };
        Ok(follow("create a volume", api.deadline(), look).await?)
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
            status.expansion = None;
            writer.set_status(&written, &status).await?;
        }
        if asked? == Outcome::Submitted {
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// What a clone is made from.
    pub(super) fn source(&self, volume: &Volume) -> Result<Option<Source>, StepError> {
        let Some(source) = &volume.spec.clone_source else {
            return Ok(None);
        };
        let missing = |kind: &str| {
            let name = &source.name;
            StepError::Missing(format!(
                "{kind} `{name}`, which it is to be a copy of, is not there or not ready"
            ))
        };
        match source.kind {
            CloneSourceKind::Snapshot => {
                let kept = self.context.cluster.snapshots.store().get(&source.name);
                let status = kept.and_then(|it| it.object.status.clone());
                let found = status.and_then(|status| {
                    Some(Source {
                        array: status.vpsa_id?,
                        group: status.cg_id?.parse().ok()?,
                        snapshot: Some(status.vpsa_snapshot_id?.parse().ok()?),
                    })
                });
                found.map(Some).ok_or_else(|| missing("Snapshot"))
            }
            CloneSourceKind::Volume | CloneSourceKind::Other(_) => {
                let kept = self.context.cluster.volumes.store().get(&source.name);
                let status = kept.and_then(|it| it.object.status.clone());
                let found = status.and_then(|status| {
                    Some(Source {
                        array: status.vpsa_id,
                        group: status.cg_id.parse().ok()?,
                        snapshot: None,
                    })
                });
                found.map(Some).ok_or_else(|| missing("Volume"))
            }
        }
    }
}

/// What a clone is made from.
pub(super) struct Source {
    pub array: String,
    group: CgId,
    snapshot: Option<SnapshotId>,
}
