//! ConfigMaps and Secrets whose changes replace the pods of a driver: watched by their names alone, so that rights in their
//! namespace are enough, and only while a driver asks for them. Of a Secret nothing is read but its metadata.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Debug};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;
use sha2::{Digest, Sha256};
use stowage_kubernetes::answer::Answer;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{Cluster, Concern};

/// How long a first look may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedObject {
    /// Whether it is a Secret, or a ConfigMap.
    pub is_secret: bool,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for NamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_secret {
            "Secret"
        } else {
            "ConfigMap"
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// What an object looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Not looked at yet.
    Unknown,
    /// There is none.
    Missing,
    /// A text that is another when it has changed. Nobody learns from it what is in a Secret.
    There(String),
    /// The operator may not see it.
    Forbidden,
}

/// The watches by driver.
#[derive(Default)]
pub(super) struct NamedObjects(Mutex<HashMap<String, Watches>>);

type Watches = BTreeMap<NamedObject, Watch>;

struct Watch {
    look: watch::Receiver<Look>,
    _task: AbortOnDropHandle<()>,
}

impl Cluster {
    /// From now on changes of these objects concern a driver, and those of others no longer do. Called twice: each is watched
    /// once.
    pub fn follow_objects(&self, client: &Client, driver: &str, wanted: &BTreeSet<NamedObject>) {
        let mut drivers = self.named_objects.0.lock();
        if wanted.is_empty() {
            drivers.remove(driver);
            return;
        }
        let watches = drivers.entry(driver.to_owned()).or_default();
        watches.retain(|object, _| wanted.contains(object));
        for object in wanted {
            watches.entry(object.clone()).or_insert_with(|| {
                let (sender, look) = watch::channel(Look::Unknown);
                let follow = Following {
                    driver: driver.to_owned(),
                    look: sender,
                    changes: self.changes.clone(),
                };
                let task = follow.run(client.clone(), object.clone());
                Watch {
                    look,
                    _task: AbortOnDropHandle::new(tokio::spawn(task)),
                }
            });
        }
    }

    /// What the objects that a driver follows look like now; one that nobody has seen within some time is unknown.
    pub async fn looks(&self, driver: &str) -> BTreeMap<NamedObject, Look> {
        let watches: Vec<_> = {
            let drivers = self.named_objects.0.lock();
            let watches = drivers.get(driver).into_iter().flatten();
            let watches = watches.map(|(object, it)| (object.clone(), it.look.clone()));
            watches.collect()
        };
        let mut looks = BTreeMap::new();
        for (object, mut look) in watches {
            let seen = look.wait_for(|it| *it != Look::Unknown);
            let seen = timeout(PATIENCE, seen).await;
            let seen = seen.ok().and_then(Result::ok).map(|it| it.clone());
            looks.insert(object, seen.unwrap_or(Look::Unknown));
        }
        looks
    }
}

struct Following {
    driver: String,
    look: watch::Sender<Look>,
    changes: broadcast::Sender<Concern>,
}

impl Following {
    async fn run(self, client: Client, object: NamedObject) {
        if object.is_secret {
            let api = Api::<PartialObjectMeta<Secret>>::namespaced(client, &object.namespace);
            self.follow(api, &object.name, |secret| {
                let version = secret.resource_version().unwrap_or_default();
                format!("{}/{version}", secret.uid().unwrap_or_default())
            })
            .await;
        } else {
            let api = Api::<ConfigMap>::namespaced(client, &object.namespace);
            self.follow(api, &object.name, content).await;
        }
    }

    async fn follow<K>(&self, api: Api<K>, name: &str, version: fn(&K) -> String)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher(api, only).default_backoff().boxed();
        let mut is_listed = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => is_listed = false,
                Ok(watcher::Event::InitApply(object)) => {
                    is_listed = true;
                    self.take(Look::There(version(&object)));
                }
                Ok(watcher::Event::Apply(object)) => self.take(Look::There(version(&object))),
                Ok(watcher::Event::InitDone) if is_listed => {}
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => {
                    self.take(Look::Missing);
                }
                Err(error) if matches!(Answer::of_watch(&error), Answer::Forbidden(_)) => {
                    self.take(Look::Forbidden);
                }
                Err(_) => {}
            }
        }
    }

    fn take(&self, look: Look) {
        let is_news = self.look.send_if_modified(|known| {
            let is_news = *known != look;
            *known = look;
            is_news
        });
        if is_news {
            // Nobody listens yet, or any more.
            let _ = self.changes.send(Concern::Driver(self.driver.clone()));
        }
    }
}

/// A hash of what is in a ConfigMap.
fn content(map: &ConfigMap) -> String {
    let content = json!([map.data, map.binary_data]);
    let hash = Sha256::digest(content.to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
