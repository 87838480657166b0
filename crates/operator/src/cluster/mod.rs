//! What the operator knows about the cluster beside its own objects, kept current by watches.
//!
//! - which secrets the classes and volumes of a driver name, whoever made them;
//! - on which nodes the kubelet knows a driver;
//! - which namespaces there are.
//!
//! Only these facts are kept, never whole objects.

mod facts;
pub mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{Stream, StreamExt, future};
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use stowage_kubernetes::answer::{self, Answer};
use tokio::sync::watch;

use crate::changes::changes;
use crate::driver::secret::References;
use crate::rights::Rights;
use facts::State;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Source {
    StorageClasses,
    SnapshotClasses,
    Volumes,
    CsiNodes,
    Namespaces,
}

impl Source {
    const ALL: [Self; 5] = [
        Self::StorageClasses,
        Self::SnapshotClasses,
        Self::Volumes,
        Self::CsiNodes,
        Self::Namespaces,
    ];

    fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::StorageClasses => ("storage.k8s.io", "StorageClass", "storageclasses"),
            Self::SnapshotClasses => (
                "snapshot.storage.k8s.io",
                "VolumeSnapshotClass",
                "volumesnapshotclasses",
            ),
            Self::Volumes => ("", "PersistentVolume", "persistentvolumes"),
            Self::CsiNodes => ("storage.k8s.io", "CSINode", "csinodes"),
            Self::Namespaces => ("", "Namespace", "namespaces"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
    }
}

/// The facts. Clones share them.
#[derive(Clone)]
pub struct Cluster {
    state: Arc<Mutex<State>>,
    /// Counts changes that may matter to a driver.
    changes: watch::Sender<u64>,
    /// How many sources have been read once.
    read: watch::Sender<usize>,
    /// Whether the cluster knows snapshot classes.
    snapshots: Arc<AtomicBool>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            changes: watch::Sender::new(0),
            read: watch::Sender::new(0),
            snapshots: Arc::default(),
        }
    }
}

impl Cluster {
    /// Keeps the facts current until it is dropped.
    pub async fn watch(&self, client: Client, rights: &Rights) {
        let sources = Source::ALL.map(|source| self.follow(client.clone(), source, rights));
        future::join_all(sources).await;
    }

    /// Waits until everything has been read once: decisions on half the facts would take rights away and give them
    /// back.
    pub async fn until_read(&self) {
        let mut read = self.read.subscribe();
        // The sender lives as long as `self`.
        let _ = read.wait_for(|count| *count >= Source::ALL.len()).await;
    }

    /// One item for each change that may matter to a driver.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        changes(self.changes.subscribe())
    }

    /// The secrets that sidecars of a driver read, in namespaces that exist.
    pub fn secrets_of(&self, driver: &str) -> References {
        self.state.lock().secrets_of(driver)
    }

    /// Whether a namespace is there.
    pub fn has_namespace(&self, name: &str) -> bool {
        self.state.lock().has_namespace(name)
    }

    /// On how many nodes the kubelet knows a driver.
    pub fn registrations_of(&self, driver: &str) -> usize {
        self.state.lock().registrations_of(driver)
    }

    /// Whether the cluster knows VolumeSnapshotClasses.
    pub fn has_snapshots(&self) -> bool {
        self.snapshots.load(Ordering::Relaxed)
    }

    async fn follow(&self, client: Client, source: Source, rights: &Rights) {
        let api = Api::<DynamicObject>::all_with(client, &source.resource());
        let mut events = watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut is_read = false;
        while let Some(event) = events.next().await {
            let (changed, complete) = match event {
                Ok(event) => {
                    let news = self.is_news_of_snapshots(source, &event);
                    let (changed, complete) = self.state.lock().take_in(source, event);
                    (changed || news, complete)
                }
                // Snapshots are an addition that clusters may lack; the watch goes on trying.
                Err(error)
                    if source == Source::SnapshotClasses
                        && Answer::of_watch(&error) == Answer::NotServed =>
                {
                    (self.snapshots.swap(false, Ordering::Relaxed), true)
                }
                Err(error) => {
                    rights.recheck_if_forbidden(&error);
                    let error = answer::chain(&error);
                    tracing::warn!(
                        ?source,
                        error,
                        "A watch was interrupted and is started again."
                    );
                    (false, false)
                }
            };
            if complete && !is_read {
                is_read = true;
                self.read.send_modify(|count| *count += 1);
            }
            if changed && is_read {
                self.changes.send_modify(|count| *count += 1);
            }
        }
    }

    /// Snapshot classes are children of instances too, and where the cluster may lack a kind, this is its only watch.
    fn is_news_of_snapshots(&self, source: Source, event: &watcher::Event<DynamicObject>) -> bool {
        // A watch that begins has not been answered yet.
        if source != Source::SnapshotClasses || matches!(event, watcher::Event::Init) {
            return false;
        }
        let appeared = !self.snapshots.swap(true, Ordering::Relaxed);
        appeared || matches!(event, watcher::Event::Apply(_) | watcher::Event::Delete(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_only_begins_is_no_news() {
        let cluster = Cluster::default();
        let is_news = |event| cluster.is_news_of_snapshots(Source::SnapshotClasses, &event);
        assert!(!is_news(watcher::Event::Init));
        assert!(!cluster.has_snapshots());
        assert!(is_news(watcher::Event::InitDone));
        assert!(cluster.has_snapshots());
        assert!(!is_news(watcher::Event::InitDone));
    }
}
