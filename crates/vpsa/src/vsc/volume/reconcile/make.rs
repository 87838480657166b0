//! Makes a volume on its array, and what follows if the array says no.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stowage_api::vpsa::{Volume, VolumeState, VolumeStatus};

use super::Volumes;
use super::look::{Look, Seen};
use crate::rest::api::NewVolume;
use crate::rest::{Api, ApiError, Outcome, Refusal, follow};
use crate::vsc::array::Facts;
use crate::vsc::condition::Reason;
use crate::vsc::error::StepError;
use crate::vsc::reserved::Refused;
use crate::vsc::volume::may_be_there;
use crate::vsc::volume::wanted::Wanted;

/// What the array says when it is asked to make a volume. Any other error leaves open whether it does.
enum Answer {
    /// It has made it, or is at it.
    Yes,
    /// Something has the name.
    NameTaken,
    /// Nothing comes of it.
    No(ApiError),
}

impl Answer {
    fn of(error: ApiError) -> Result<Self, StepError> {
        match error.refusal() {
            Some(Refusal::NameTaken) => Ok(Self::NameTaken),
            _ if error.is_final() => Ok(Self::No(error)),
            _ => Err(error.into()),
        }
    }
}

impl Volumes {
    /// Makes it, empty or as a copy. A name that is taken although nobody asked before is somebody else's.
    ///
    /// Called twice: it is found by its name before, or the array says that the name is taken.
    pub(super) async fn make(
        &self,
        api: &Api,
        object: &Volume,
        wanted: &Wanted,
        look: &mut Look,
    ) -> Result<Option<Seen>, StepError> {
        let mut before = None;
        let object = if look.fresh {
            object.clone()
        } else {
            before = object.status.as_ref().and_then(|it| it.asked.clone());
            self.ask_again(object).await?
        };
        look.asked = true;
        let answer = if object.spec.clone_source.is_some() {
            self.copy(api, &object, wanted).await?
        } else {
            self.create(api, &object, wanted).await?
        };
        match answer {
            Answer::NameTaken if look.fresh => {
                let found = api.volume_named(&wanted.name).await?;
                Ok(found.map(|volume| Seen::Foreign(Box::new(volume))))
            }
            Answer::Yes => {
                // A copy takes its room little by little.
                if object.spec.clone_source.is_none() {
                    self.context.reserved.made(&object.name_any());
                }
                Ok(None)
            }
            // A name may be taken by a call whose answer was lost, or by somebody else: the next look tells.
            Answer::NameTaken => Ok(None),
            Answer::No(error) => {
                // Whatever it says: the next look finds it.
                if api.volume_named(&wanted.name).await?.is_some() {
                    return Err(error.into());
                }
                let now = after_refusal(&object, before, &error);
                self.context.writer.set_status(&object, &now).await?;
                if !now.vpsa_id.is_empty() {
                    return Err(error.into());
                }
                let refused = Refused::no_room(wanted.gigabytes, &error);
                self.give_up(&object, refused, "NoRoom", error.into(), look)?;
                Ok(None)
            }
        }
    }

    /// Writes down that the array is asked once more, before it is.
    async fn ask_again(&self, object: &Volume) -> Result<Volume, StepError> {
        let status = VolumeStatus {
            asked: Some(Time(Timestamp::now())),
            ..object.status.clone().unwrap_or_default()
        };
        Ok(self.context.writer.set_status(object, &status).await?)
    }

    /// What the array has. One that cannot be asked is given up for another while nothing can be there; a copy cannot be
    /// anywhere else.
    pub(super) async fn ask_or_give_up(
        &self,
        object: &Volume,
        look: &mut Look,
    ) -> Result<Option<Seen>, StepError> {
        let status = object.status.clone().unwrap_or_default();
        let error = match self.ask(object).await {
            Err(StepError::Array(error))
                if !may_be_there(&status) && object.spec.clone_source.is_none() =>
            {
                error
            }
            seen => return seen.map(Some),
        };
        let now = VolumeStatus {
            vpsa_id: String::new(),
            ..status
        };
        self.context.writer.set_status(object, &now).await?;
        let refused = Refused::anything(&error);
        self.give_up(object, refused, "ArrayFailed", error.into(), look)?;
        Ok(None)
    }

    /// Has another array chosen in place of the one that the object names, because that does not take it: at once, but only
    /// once in a look. That one is looked at, so that others know.
    fn give_up(
        &self,
        object: &Volume,
        refused: Refused,
        word: &'static str,
        error: StepError,
        look: &mut Look,
    ) -> Result<(), StepError> {
        let array = object.status.as_ref().map(|it| it.vpsa_id.as_str());
        let (array, reserved) = (array.unwrap_or_default(), &self.context.reserved);
        reserved.release(&object.name_any());
        reserved.refuse(array, refused);
        self.arrays.add(array);
        if look.gave_up {
            return Err(error);
        }
        let message = format!("VPSA `{array}` does not take it, another is chosen: {error}");
        let reason = Reason::not_ready(word, message);
        self.context.tell(object, &reason, true);
        *look = Look {
            gave_up: true,
            ..Look::default()
        };
        Ok(())
    }

    async fn create(
        &self,
        api: &Api,
        volume: &Volume,
        wanted: &Wanted,
    ) -> Result<Answer, StepError> {
        let classes = self.context.cluster.classes.store();
        let class = classes.get(&volume.spec.vsc_storage_class_name);
        let pool = class
            .as_ref()
            .and_then(|it| it.object.spec.pool_name.as_deref());
        let array = volume.status.as_ref().map(|it| it.vpsa_id.as_str());
        let array = array.unwrap_or_default();
        let facts = Facts::of_pools(match self.context.pools.known(array) {
            Some(pools) => pools,
            None => api.pools().await?,
        });
        let pool = facts.pool(pool).map_err(StepError::Missing)?;
        let new = NewVolume {
            name: &wanted.name,
            capacity: wanted.gigabytes,
            pool: &pool.id,
            kind: wanted.kind,
            options: &wanted.options,
        };
        match api.create_volume(&new).await {
            Ok(Outcome::Done(_)) => Ok(Answer::Yes),
            Ok(Outcome::Submitted) => self.follow(api, &wanted.name).await,
            Err(error) => {
                // The next attempt asks again which pools there are.
                self.context.pools.forget(array);
                Answer::of(error)
            }
        }
    }

    async fn copy(&self, api: &Api, volume: &Volume, wanted: &Wanted) -> Result<Answer, StepError> {
        let Some(source) = self.source(volume)? else {
            return Ok(Answer::Yes);
        };
        let made = api.clone_volume(&source.group, &wanted.name, source.snapshot.as_ref());
        let group = match made.await {
            Ok(Outcome::Done(group)) => group,
            Ok(Outcome::Submitted) => return self.follow(api, &wanted.name).await,
            Err(error) => return Answer::of(error),
        };
        let status = VolumeStatus {
            state: VolumeState::Cloning,
            cg_id: group.to_string(),
            ..volume.status.clone().unwrap_or_default()
        };
        self.context.writer.set_status(volume, &status).await?;
        Ok(Answer::Yes)
    }

    /// Waits until what the array has taken on is seen.
    async fn follow(&self, api: &Api, name: &str) -> Result<Answer, StepError> {
        let look = || async { Ok(api.volume_named(name).await?.map(drop)) };
        follow("create a volume", api.deadline(), look).await?;
        Ok(Answer::Yes)
    }
}

/// The status of a volume that the array refused to make. `before` is when it was asked earlier, and may still do what it was
/// asked then; otherwise nothing of it is there. Then an array without room is given up, but for a copy.
fn after_refusal(volume: &Volume, before: Option<Time>, error: &ApiError) -> VolumeStatus {
    let mut now = VolumeStatus {
        asked: before,
        ..volume.status.clone().unwrap_or_default()
    };
    if now.asked.is_none() {
        now.state = VolumeState::Creating;
        let is_full = error.refusal() == Some(Refusal::NoRoom);
        if is_full && volume.spec.clone_source.is_none() {
            now.vpsa_id.clear();
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_array_is_given_up_only_if_it_is_full_and_nothing_can_be_there() {
        let refused = |refusal| ApiError::Refused {
            doing: "create a volume",
            refusal,
            code: 1,
            message: String::new(),
        };
        let asked = "2026-01-02T03:04:05Z";
        let volume = |source: Value| -> Volume {
            let object = json!({"metadata": {"name": "v"}, "spec": {"cloneSource": source},
                "status": {"state": "Provisioning", "VPSAID": "a", "asked": asked}});
            serde_json::from_value(object).unwrap()
        };
        let empty = || volume(Value::Null);
        let copy = || volume(json!({"kind": "Volume", "name": "u"}));
        let earlier = empty().status.unwrap().asked;
        assert!(earlier.is_some());
        let (creating, begun) = (VolumeState::Creating, VolumeState::Provisioning);
        for (volume, before, refusal, array, state) in [
            (empty(), None, Refusal::NoRoom, "", &creating),
            (empty(), None, Refusal::Invalid, "a", &creating),
            (copy(), None, Refusal::NoRoom, "a", &creating),
            (empty(), earlier, Refusal::NoRoom, "a", &begun),
        ] {
            let now = after_refusal(&volume, before.clone(), &refused(refusal));
            assert_eq!((now.vpsa_id.as_str(), &now.state), (array, state));
            assert_eq!(now.asked, before);
        }
    }
}
