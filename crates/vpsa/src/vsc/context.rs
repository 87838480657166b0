//! What the kinds have in common: where they look, how they write, and what they say.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::object::HasStatus;
use serde::Serialize;
use stowage_api::causes::chain;
use stowage_api::vpsa::{
    Observed, SnapshotStatus, VolumeAttachmentStatus, VolumeStatus, VpsaStatus,
    VscStorageClassStatus,
};
use stowage_kubernetes::events::Events;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::Verdict;

use super::array::step::Trouble;
use super::clients::Clients;
use super::cluster::Cluster;
use super::condition::{self, Reason};
use super::error::StepError;
use super::pools::Pools;
use super::reserved::Reserved;
use super::write::{Own, Writer};
use crate::rest::{Api, ApiError};

/// How soon it is looked again at what was decided on something that is no longer so.
pub const BEHIND: Duration = Duration::from_millis(200);

/// How soon it is looked again at what the array is busy with.
pub const SOON: Duration = Duration::from_millis(500);

/// How soon it is looked again at what is not as it should be, and what only people or the array can mend.
pub const LATER: Duration = Duration::from_secs(60);

/// How many times the time of one look an array may take until what it was asked for is seen. What has not come by then does
/// not come: its object may go, or ask anew.
const LATEST: u32 = 4;

/// A status with a generation and conditions.
pub trait Conditioned: Clone + Default + PartialEq + Serialize + Send + Sync {
    /// Generation and conditions.
    fn observed(&mut self) -> &mut Observed;
}

macro_rules! conditioned {
    ($($status:ty),+) => {
        $(impl Conditioned for $status {
            fn observed(&mut self) -> &mut Observed {
                &mut self.observed
            }
        })+
    };
}

conditioned!(
    SnapshotStatus,
    VolumeAttachmentStatus,
    VolumeStatus,
    VpsaStatus,
    VscStorageClassStatus
);

/// What came of saying how an object is.
pub struct Recorded<K> {
    /// The object as it is now.
    pub object: K,
    /// People have not heard that yet.
    pub is_news: bool,
}

/// What the kinds have in common.
pub struct Context {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// Clients of arrays.
    pub clients: Clients,
    /// The pools of arrays.
    pub pools: Pools,
    /// Room of arrays that is promised.
    pub reserved: Reserved,
    /// Writes objects.
    pub writer: Writer,
    /// Tells people.
    pub events: Events,
    /// How long an array may take for one look.
    pub patience: Duration,
}

impl Context {
    /// An array, for as long as one look may take. One that has not answered, or is not the one it was, is not called: whoever
    /// waits for a silent array holds up everybody else, and identities mean something else on another.
    pub async fn api(&self, array: &str) -> Result<Api, StepError> {
        let kept = self.cluster.arrays.store().get(array);
        let kept =
            kept.ok_or_else(|| StepError::Missing(format!("VPSA `{array}` does not exist")))?;
        let client = self.clients.client(&kept.object).await?;
        match self.clients.heard(array) {
            Some(Ok(())) => Ok(client.within(self.patience).hurried()),
            Some(Err(trouble)) => Err(trouble.into()),
            None => Err(StepError::Unheard(array.to_owned())),
        }
    }

    /// Whether something may still come, or be there unseen, that an array was last asked for then.
    pub fn may_come(&self, asked: Option<&Time>) -> bool {
        let latest = SignedDuration::try_from(self.patience.saturating_mul(LATEST));
        let latest = latest.unwrap_or(SignedDuration::MAX);
        asked.is_some_and(|asked| Timestamp::now().duration_since(asked.0) < latest)
    }

    /// Says how an object is. Called twice: it is said.
    pub async fn record<K>(
        &self,
        object: &K,
        mut now: K::Status,
        reason: &Reason,
    ) -> Result<Recorded<K>, ObjectError>
    where
        K: Own + HasStatus,
        K::Status: Conditioned,
    {
        let mut before = object.status().cloned().unwrap_or_default();
        let before = before.observed();
        *now.observed() =
            condition::observed(before, object.meta().generation, reason, Timestamp::now());
        if object.status() == Some(&now) {
            return Ok(Recorded {
                object: object.clone(),
                is_news: false,
            });
        }
        let written = self.writer.set_status(object, &now).await?;
        let word = condition::ready(before).map(|it| it.reason.as_str());
        let is_news = word != Some(reason.word);
        if is_news {
            let (kind, name) = (K::kind(&()), object.meta().name.as_deref());
            tracing::info!(%kind, name, reason = reason.word, message = reason.message, "An object changed.");
        }
        Ok(Recorded {
            object: written,
            is_news,
        })
    }

    /// An Event of what was recorded.
    pub fn tell<K: Own>(&self, object: &K, reason: &Reason, is_trouble: bool) {
        let (object, message) = (object.object_ref(&()), reason.message.as_str());
        if is_trouble {
            self.events.warning(object, reason.word, message);
        } else {
            self.events.normal(object, reason.word, message);
        }
    }

    /// What follows from one look at an object that is on an array.
    pub async fn verdict<K>(&self, object: &K, done: Result<Verdict, StepError>) -> Verdict
    where
        K: Own + HasStatus,
        K::Status: Conditioned,
    {
        let error = match done {
            Ok(verdict) => return verdict,
            Err(error) => error,
        };
        match &error {
            // Somebody else was faster: what they wrote comes with the watch.
            StepError::Object(error) if error.is_stale() => return Verdict::After(SOON, None),
            StepError::Object(_) => {}
            // The array's own look says how it is.
            StepError::Unheard(_) | StepError::Array(Trouble::Call(ApiError::Silent { .. })) => {
                return Verdict::Retry(chain(&error));
            }
            StepError::Array(_)
            | StepError::Allocation(_)
            | StepError::Undeleted { .. }
            | StepError::Record { .. }
            | StepError::Missing(_) => {
                self.report(object, &error).await;
            }
        }
        let (kind, text) = (K::kind(&()), chain(&error));
        tracing::warn!(%kind, name = object.meta().name, error = text, "Trying again.");
        Verdict::Retry(text)
    }

    /// Tells people why it does not go on; the state stays as it is.
    async fn report<K>(&self, object: &K, error: &StepError)
    where
        K: Own + HasStatus,
        K::Status: Conditioned,
    {
        let reason = Reason::not_ready(error.word(), chain(error));
        self.tell(object, &reason, true);
        let name = object.meta().name.as_deref().unwrap_or_default();
        if let Ok(Some(now)) = self.writer.read::<K>(name).await {
            let status = now.status().cloned().unwrap_or_default();
            // The next attempt says it again.
            let _ = self.record(&now, status, &reason).await;
        }
    }
}
