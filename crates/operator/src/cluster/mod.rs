//! What the operator knows about the cluster beside its own objects, kept current by watches.
//!
//! - which secrets the classes and volumes of a driver name, whoever made them;
//! - which claims its volumes are bound to;
//! - on which nodes the kubelet knows a driver;
//! - which namespaces there are.
//!
//! Only these facts are kept, never whole objects.

pub mod attributes;
mod claims;
mod driver_pods;
mod facts;
mod followed;
pub mod intents;
mod named_objects;
mod names;
mod source;
mod startup_taints;
mod updates;
pub mod usage;
mod wanted_secrets;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, future, stream};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use stowage_api::backoff::Backoff;
use stowage_kubernetes::answer::{self, Answer};
use tokio::sync::{broadcast, watch};

use crate::driver::secret::References;
use crate::rights::Rights;
use crate::served::Served;
use driver_pods::DriverPods;
pub use driver_pods::{PodFailure, WORKLOADS, instance_of};
use facts::State;
use named_objects::NamedObjects;
pub use named_objects::{Look, NamedObject};
use source::Source;
use startup_taints::StartupTaints;
use updates::Updates;
pub use updates::{Attachment, REVISION, ReducedAttachment, SetPod, Update, Updating};

/// When a kind that the cluster lacks is asked for again: soon after the start, because manifests are often applied in one
/// go, and later rarely.
const LACKING: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(60),
};

/// Changes that a listener may be behind: with more it looks at every driver.
const PENDING: usize = 256;

/// Whom a change of the cluster concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The driver of this name.
    Driver(String),
    /// One instance.
    Instance {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
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
    /// Which kinds the cluster has.
    served: Served,
    /// Instances whose nodes are emptied.
    updates: Arc<Updates>,
    /// Pods of drivers that do not run.
    driver_pods: Arc<DriverPods>,
    /// ConfigMaps and Secrets that drivers restart for.
    named_objects: Arc<NamedObjects>,
    /// Nodes on which drivers are to come first.
    startup_taints: Arc<StartupTaints>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            changes: broadcast::Sender::new(PENDING),
            read: watch::Sender::new(0),
            served: Served::default(),
            updates: Arc::default(),
            driver_pods: Arc::default(),
            named_objects: Arc::default(),
            startup_taints: Arc::default(),
        }
    }
}

impl Cluster {
    /// Keeps the facts current until it is dropped.
    pub async fn watch(&self, client: Client, rights: &Rights) {
        let sources = Source::ALL.map(|source| self.follow(client.clone(), source, rights));
        let pods = WORKLOADS.map(|it| self.follow_driver_pods(client.clone(), it, rights));
        future::join(future::join_all(sources), future::join_all(pods)).await;
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

    /// From now on volumes and snapshots of this driver that go are changes too.
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

    /// The drivers that the kubelet of a node knows.
    pub fn drivers_on(&self, node: &str) -> BTreeSet<String> {
        self.state.lock().drivers_on(node)
    }

    /// Whether a claim has a volume of a driver.
    pub fn is_claim_of(&self, driver: &str, claim: &usage::Claim) -> bool {
        self.state.lock().is_claim_of(driver, claim)
    }

    /// The claim by which pods get a volume: none of one that is kept while the claim has another.
    pub fn claim_of_volume(&self, volume: &str) -> Option<usage::Claim> {
        self.state.lock().claim_of_volume(volume)
    }

    /// The driver of a volume, if it is known and has one.
    pub fn driver_of_volume(&self, volume: &str) -> Option<String> {
        self.state.lock().driver_of_volume(volume)
    }

    /// The volumes of a driver, and the claims by which pods get them.
    pub fn volumes_of(&self, driver: &str) -> Vec<(String, Option<usage::Claim>)> {
        self.state.lock().volumes_of(driver)
    }

    /// Which kinds the cluster has, and in which versions.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Follows a kind for as long as the cluster has it, and waits for it where it has not.
    async fn follow(&self, client: Client, source: Source, rights: &Rights) {
        let mut reading = Reading::default();
        let mut failures = 0;
        loop {
            match source.find(&client).await {
                Ok(Some(version)) => {
                    failures = 0;
                    self.note(source, Some(version), &reading);
                    let api = Api::all_with(client.clone(), &source.resource(version));
                    self.follow_api(api, source, rights, &mut reading).await;
                }
                Ok(None) => {
                    self.note(source, None, &reading);
                    self.is_complete(&mut reading);
                    let concerned = self.state.lock().forget(source);
                    self.tell(concerned.into_iter().map(Concern::Driver));
                }
                Err(error) => {
                    let error = answer::chain(&error);
                    tracing::warn!(?source, error, "The server cannot be asked what it serves.");
                }
            }
            failures += 1;
            tokio::time::sleep(LACKING.after(failures)).await;
        }
    }

    /// Follows a kind until the cluster no longer has it.
    async fn follow_api(
        &self,
        api: Api<DynamicObject>,
        source: Source,
        rights: &Rights,
        reading: &mut Reading,
    ) {
        let config = watcher::Config {
            label_selector: source.labels().map(str::to_owned),
            page_size: Some(source.page_size()),
            ..watcher::Config::default()
        };
        let mut events = watcher(api, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error)
                    if source.is_optional() && Answer::of_watch(&error) == Answer::NotServed =>
                {
                    return;
                }
                Err(error) => {
                    rights.recheck_if_forbidden(&error);
                    let error = answer::chain(&error);
                    let told = "A watch was interrupted and is started again.";
                    tracing::warn!(?source, error, "{told}");
                    continue;
                }
            };
            let news = news_of_children(source, &event);
            let (concerned, is_complete) = self.state.lock().take_in(source, event);
            if is_complete {
                self.is_complete(reading);
            }
            if reading.is_done {
                let concerned = concerned.into_iter().map(Concern::Driver);
                self.tell(concerned.chain(news));
            }
        }
    }

    fn tell(&self, concerned: impl IntoIterator<Item = Concern>) {
        for concern in concerned {
            // Nobody listens yet, or any more.
            let _ = self.changes.send(concern);
        }
    }

    fn is_complete(&self, reading: &mut Reading) {
        if !reading.is_done {
            reading.is_done = true;
            self.read.send_modify(|count| *count += 1);
        }
    }

    /// Notes down in which version the cluster has a kind. Whoever has objects of it is concerned.
    fn note(&self, source: Source, group_version: Option<&'static str>, reading: &Reading) {
        let version = group_version.map(|it| it.rsplit('/').next().unwrap_or(it));
        let is_news = self.served.note(|versions| {
            if let Some(noted) = source.noted(versions) {
                *noted = version;
            }
        });
        if is_news && reading.is_done {
            self.tell([Concern::Everybody]);
        }
    }
}

/// Whether a source has been read once.
#[derive(Default)]
struct Reading {
    is_done: bool,
}

/// Some kinds have no other watch of the objects that belong to instances.
fn news_of_children(source: Source, event: &watcher::Event<DynamicObject>) -> Option<Concern> {
    let (watcher::Event::Apply(object) | watcher::Event::Delete(object)) = event else {
        return None;
    };
    if source.labels().is_some() {
        return Some(Concern::Everybody);
    }
    let driver = object.data[source.driver_field()?].as_str()?;
    Some(Concern::Driver(driver.to_owned()))
}
