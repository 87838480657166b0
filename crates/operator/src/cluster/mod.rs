//! What the operator knows about the cluster beside its own objects, kept current by watches.
//!
//! - which secrets the classes and volumes of a driver name, whoever made them;
//! - which claims its volumes are bound to;
//! - on which nodes the kubelet knows a driver;
//! - which namespaces there are.
//!
//! Only these facts are kept, never whole objects.

mod facts;
mod node_pods;
pub mod usage;
mod wanted_secrets;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, future, stream};
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use stowage_kubernetes::answer::{self, Answer};
use tokio::sync::{broadcast, watch};

use crate::driver::secret::References;
use crate::rights::Rights;
use facts::State;
use node_pods::NodePods;

/// How long a kind that the cluster lacks is not asked for again. The watch's own pauses never get long: each attempt
/// begins well.
const LACKING: Duration = Duration::from_secs(10);

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

/// Changes that a listener may be behind: with more it looks at every driver.
const PENDING: usize = 256;

/// Whom a change of the cluster concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The driver of this name.
    Driver(String),
    /// Every driver.
    Everybody,
}

/// The facts. Clones share them.
#[derive(Clone)]
pub struct Cluster {
    state: Arc<Mutex<State>>,
    /// Whom changes concern.
    changes: broadcast::Sender<Concern>,
    /// How many sources have been read once.
    read: watch::Sender<usize>,
    /// Whether the cluster knows snapshot classes.
    snapshots: Arc<AtomicBool>,
    /// Pods that drivers wait for.
    node_pods: Arc<NodePods>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            changes: broadcast::Sender::new(PENDING),
            read: watch::Sender::new(0),
            snapshots: Arc::default(),
            node_pods: Arc::default(),
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
    pub fn changes(&self) -> impl Stream<Item = Concern> + Send + 'static {
        stream::unfold(self.changes.subscribe(), |mut changes| async move {
            match changes.recv().await {
                Ok(concern) => Some((concern, changes)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Concern::Everybody, changes)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
    }

    /// From now on volumes of this driver that go are changes too.
    pub fn await_unused(&self, driver: &str) {
        self.state.lock().awaited.insert(driver.to_owned());
    }

    /// Nobody waits for this driver's volumes any more.
    pub fn forget(&self, driver: &str) {
        self.state.lock().awaited.remove(driver);
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

    /// Whether the kubelet of a node knows a driver.
    pub fn is_registered(&self, driver: &str, node: &str) -> bool {
        self.state.lock().is_registered(driver, node)
    }

    /// Whether a claim has a volume of a driver.
    pub fn is_claim_of(&self, driver: &str, claim: &usage::Claim) -> bool {
        self.state.lock().is_claim_of(driver, claim)
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
            let mut is_lacking = false;
            let (concerned, complete) = match event {
                Ok(event) => {
                    let news = self.news_of_snapshots(source, &event);
                    let (concerned, complete) = self.state.lock().take_in(source, event);
                    let concerned = concerned.into_iter().map(Concern::Driver);
                    (concerned.chain(news).collect(), complete)
                }
                // Snapshots are an addition that clusters may lack; the watch goes on trying.
                Err(error)
                    if source == Source::SnapshotClasses
                        && Answer::of_watch(&error) == Answer::NotServed =>
                {
                    is_lacking = true;
                    let had_them = self.snapshots.swap(false, Ordering::Relaxed);
                    let news = had_them.then_some(Concern::Everybody);
                    (news.into_iter().collect::<Vec<_>>(), true)
                }
                Err(error) => {
                    rights.recheck_if_forbidden(&error);
                    let error = answer::chain(&error);
                    tracing::warn!(
                        ?source,
                        error,
                        "A watch was interrupted and is started again."
                    );
                    (Vec::new(), false)
                }
            };
            if complete && !is_read {
                is_read = true;
                self.read.send_modify(|count| *count += 1);
            }
            for concern in concerned.into_iter().filter(|_| is_read) {
                // Nobody listens yet, or any more.
                let _ = self.changes.send(concern);
            }
            if is_lacking {
                // A watch asks the server when it is asked for the next event.
                tokio::time::sleep(LACKING).await;
            }
        }
    }

    /// Snapshot classes are children of instances too, and where the cluster may lack a kind, this is its only watch.
    fn news_of_snapshots(
        &self,
        source: Source,
        event: &watcher::Event<DynamicObject>,
    ) -> Option<Concern> {
        // A watch that begins has not been answered yet.
        if source != Source::SnapshotClasses || matches!(event, watcher::Event::Init) {
            return None;
        }
        if !self.snapshots.swap(true, Ordering::Relaxed) {
            return Some(Concern::Everybody);
        }
        match event {
            watcher::Event::Apply(class) | watcher::Event::Delete(class) => {
                let driver = class.data["driver"].as_str()?;
                Some(Concern::Driver(driver.to_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_only_begins_is_no_news() {
        let cluster = Cluster::default();
        let news = |event| cluster.news_of_snapshots(Source::SnapshotClasses, &event);
        assert_eq!(news(watcher::Event::Init), None);
        assert!(!cluster.has_snapshots());
        assert_eq!(news(watcher::Event::InitDone), Some(Concern::Everybody));
        assert!(cluster.has_snapshots());
        assert_eq!(news(watcher::Event::InitDone), None);
    }
}
