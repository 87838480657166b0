//! Custom resources, and waiting for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ObjectMeta;
use kube::core::object::HasStatus;
use parking_lot::Mutex;
use stowage_api::vpsa::{FINALIZER, Snapshot, Volume, VolumeAttachment};
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::store::{Cached as _, Change};
use stowage_kubernetes::watch::Watched;
use stowage_rest::Deadline;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{Error, is_trouble};
use crate::vsc::cluster::{Cluster, Kept};
use crate::vsc::condition;
use crate::vsc::context::Conditioned;
use crate::vsc::write::{Own, Writer};

/// How long at most until it is looked again, should a watch be late.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A kind that calls wait for.
pub trait Awaited: Own + HasStatus<Status: Conditioned> + 'static {
    /// What is watched of it.
    fn watched(cluster: &Cluster) -> &Watched<Kept<Self>>;
}

impl Awaited for Volume {
    fn watched(cluster: &Cluster) -> &Watched<Kept<Self>> {
        &cluster.volumes
    }
}

impl Awaited for Snapshot {
    fn watched(cluster: &Cluster) -> &Watched<Kept<Self>> {
        &cluster.snapshots
    }
}

impl Awaited for VolumeAttachment {
    fn watched(cluster: &Cluster) -> &Watched<Kept<Self>> {
        &cluster.attachments
    }
}

/// Custom resources, as calls see them.
pub struct Objects {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// Reads and writes.
    pub writer: Writer,
    /// Who waits for a change of which object.
    waiting: Arc<Mutex<HashMap<String, watch::Sender<()>>>>,
}

/// Somebody who waits for changes of an object; the last who leaves leaves nothing behind.
struct Waiting<'a> {
    all: &'a Mutex<HashMap<String, watch::Sender<()>>>,
    key: String,
    changes: watch::Receiver<()>,
}

impl<'a> Waiting<'a> {
    fn new(all: &'a Mutex<HashMap<String, watch::Sender<()>>>, key: String) -> Self {
        let changes = all.lock().entry(key.clone()).or_default().subscribe();
        Self { all, key, changes }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // Its own is still among them.
        if all
            .get(&self.key)
            .is_some_and(|it| it.receiver_count() <= 1)
        {
            all.remove(&self.key);
        }
    }
}

impl Objects {
    /// Listens for changes of what is watched.
    pub fn new(cluster: Arc<Cluster>, writer: Writer) -> Self {
        let objects = Self {
            cluster,
            writer,
            waiting: Arc::default(),
        };
        objects.listen::<Volume>();
        objects.listen::<Snapshot>();
        objects.listen::<VolumeAttachment>();
        objects
    }

    /// Wakes those who wait for an object whenever it changes.
    fn listen<K: Awaited>(&self) {
        let waiting = Arc::clone(&self.waiting);
        K::watched(&self.cluster).listen(move |change: &Change<Kept<K>>| {
            let key = key::<K>(change.object().key());
            if let Some(sender) = waiting.lock().get(&key) {
                sender.send_replace(());
            }
        });
    }

    /// Waits until `judge` has seen enough of an object or the time is over; then the condition says why it is not as
    /// `wanted`. What watches tell may be behind: it says when to read the object, and what was read decides.
    pub async fn until<K: Awaited, T>(
        &self,
        name: &str,
        wanted: &'static str,
        deadline: Deadline,
        judge: impl Fn(Option<&K>) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let read = self.writer.read(name);
        self.until_after(read, name, wanted, deadline, judge).await
    }

    /// The same for an object that is made by `first`, or read by it.
    pub async fn until_after<K: Awaited, T>(
        &self,
        first: impl Future<Output = Result<Option<K>, ObjectError>>,
        name: &str,
        wanted: &'static str,
        deadline: Deadline,
        judge: impl Fn(Option<&K>) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        // Before it is looked: what changes afterwards is told.
        let mut waiting = Waiting::new(&self.waiting, key::<K>(name));
        let store = K::watched(&self.cluster).store();
        let mut object = first.await?;
        loop {
            if let Some(end) = judge(object.as_ref()) {
                return end;
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return Err(unfinished(object.as_ref(), name, wanted));
            }
            let told = async {
                while waiting.changes.changed().await.is_ok() {
                    let known = store.get(name);
                    if judge(known.as_ref().map(|it| &it.object)).is_some() {
                        break;
                    }
                }
            };
            // Whether enough is told or the time is over: it is read again.
            let _ = timeout(left.min(LOOK_AGAIN), told).await;
            object = self.writer.read(name).await?;
        }
    }

    /// The object of this name; one that is being deleted is waited for.
    pub async fn gone_or_there<K: Awaited>(
        &self,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<K>, Error> {
        let judge = |object: Option<&K>| match object {
            Some(object) if object.meta().deletion_timestamp.is_some() => None,
            object => Some(Ok(object.cloned())),
        };
        self.until(name, "deleted", deadline, judge).await
    }

    /// Makes an object if it is new; the object as it is then. Called twice: it is there.
    pub async fn ensure<K: Awaited>(
        &self,
        wanted: &K,
        is_new: bool,
    ) -> Result<Option<K>, ObjectError> {
        if is_new && let Some(made) = self.writer.create(wanted).await? {
            return Ok(Some(made));
        }
        let name = wanted.meta().name.as_deref().unwrap_or_default();
        self.writer.read(name).await
    }

    /// Has an object deleted, and waits until it is gone. Called twice: it is gone.
    pub async fn delete<K: Awaited>(&self, name: &str, deadline: Deadline) -> Result<(), Error> {
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

/// What a new object is called, and that it is held from the start: the control plane lets it go once nothing is on an array.
pub fn held(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    }
}

/// Why an object does not become what it should, if that is known: the control plane has seen its newest form, and says what
/// stands in the way.
pub fn trouble<K: Awaited>(object: &K, name: &str, wanted: &'static str) -> Option<Error> {
    let mut status = object.status().cloned().unwrap_or_default();
    let ready = condition::ready(status.observed())?;
    let is_current = ready.observed_generation == object.meta().generation;
    let is_known = is_current && ready.status != "True" && is_trouble(&ready.reason);
    is_known.then(|| unfinished(Some(object), name, wanted))
}

fn unfinished<K: Awaited>(object: Option<&K>, name: &str, wanted: &'static str) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_who_waits_for_an_object_leaves_nothing_behind() {
        let all = Mutex::default();
        let first = Waiting::new(&all, "volumes/v".to_owned());
        let second = Waiting::new(&all, "volumes/v".to_owned());
        drop(first);
        assert!(all.lock().contains_key("volumes/v"), "the other waits on");
        drop(second);
        assert!(all.lock().is_empty());
    }
}
