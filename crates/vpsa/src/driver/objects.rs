//! Custom resources, and waiting for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::core::object::HasStatus;
use parking_lot::Mutex;
use stowage_kubernetes::store::{Cached as _, Change};
use stowage_rest::Deadline;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{Error, is_trouble};
use crate::vsc::cluster::{Cluster, Kept};
use crate::vsc::condition;
use crate::vsc::context::Conditioned;
use crate::vsc::write::{Own, Writer};

/// How long at most until it is looked again, should a watch be late.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Custom resources, as calls see them.
pub struct Objects {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// Reads and writes.
    pub writer: Writer,
    /// Who waits for a change of which object.
    waiting: Arc<Mutex<HashMap<String, watch::Sender<()>>>>,
}

impl Objects {
    /// Listens for changes of what is watched.
    pub fn new(cluster: Arc<Cluster>, writer: Writer) -> Self {
        let objects = Self {
            cluster,
            writer,
            waiting: Arc::default(),
        };
        let cluster = &objects.cluster;
        cluster.volumes.listen(objects.teller());
        cluster.snapshots.listen(objects.teller());
        cluster.attachments.listen(objects.teller());
        objects
    }

    fn teller<K: Own + 'static>(&self) -> impl Fn(&Change<Kept<K>>) + Send + Sync + 'static {
        let waiting = Arc::clone(&self.waiting);
        move |change| {
            let key = key::<K>(change.object().key());
            let mut waiting = waiting.lock();
            if let Some(sender) = waiting.get(&key)
                && sender.send(()).is_err()
            {
                waiting.remove(&key);
            }
        }
    }

    /// Reads an object again and again as it changes, until `judge` has seen enough or the time is over; then the condition
    /// says why it is not as `wanted`.
    pub async fn until<K, T>(
        &self,
        name: &str,
        wanted: &'static str,
        deadline: Deadline,
        judge: impl Fn(Option<&K>) -> Option<Result<T, Error>>,
    ) -> Result<T, Error>
    where
        K: Own + HasStatus,
        K::Status: Conditioned,
    {
        let mut changed = {
            let mut waiting = self.waiting.lock();
            let sender = waiting.entry(key::<K>(name)).or_default();
            sender.subscribe()
        };
        loop {
            let object = self.writer.read::<K>(name).await?;
            if let Some(end) = judge(object.as_ref()) {
                return end;
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return Err(unfinished(object.as_ref(), name, wanted));
            }
            // Whether it changed or the time is over: it is looked again.
            let _ = timeout(left.min(LOOK_AGAIN), changed.changed()).await;
        }
    }

    /// Has an object deleted, and waits until it is gone. Called twice: it is gone.
    pub async fn delete<K>(&self, name: &str, deadline: Deadline) -> Result<(), Error>
    where
        K: Own + HasStatus,
        K::Status: Conditioned,
    {
        self.writer.delete::<K>(name).await?;
        let judge = |object: Option<&K>| match object {
            None => Some(Ok(())),
            // Another one, which was made since.
            Some(object) if object.meta().deletion_timestamp.is_none() => Some(Ok(())),
            Some(object) => trouble(object, name, "deleted").map(Err),
        };
        self.until(name, "deleted", deadline, judge).await
    }
}

/// Why an object does not become what it should, if that is known: the control plane has seen its newest form, and says what
/// stands in the way.
pub fn trouble<K>(object: &K, name: &str, wanted: &'static str) -> Option<Error>
where
    K: Own + HasStatus,
    K::Status: Conditioned,
{
    let mut status = object.status().cloned().unwrap_or_default();
    let ready = condition::ready(status.observed())?;
    let is_current = ready.observed_generation == object.meta().generation;
    let is_known = is_current && ready.status != "True" && is_trouble(&ready.reason);
    is_known.then(|| unfinished(Some(object), name, wanted))
}

fn unfinished<K>(object: Option<&K>, name: &str, wanted: &'static str) -> Error
where
    K: Own + HasStatus,
    K::Status: Conditioned,
{
    let mut status = object
        .and_then(HasStatus::status)
        .cloned()
        .unwrap_or_default();
    let ready = condition::ready(status.observed());
    let pending = || "the control plane has not begun with it: is one running?".to_owned();
    Error::Unfinished {
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        wanted,
        word: ready.map(|it| it.reason.clone()).unwrap_or_default(),
        message: ready.map_or_else(pending, |it| it.message.clone()),
    }
}

fn key<K: Own>(name: &str) -> String {
    format!("{}/{name}", K::plural(&()))
}
