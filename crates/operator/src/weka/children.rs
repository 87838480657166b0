//! The objects of drivers as they are in the cluster, kept current by watches. They are found by their labels: what was
//! made before a crash is known again, and what nobody wants any more is found whoever wanted it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, future};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use stowage_api::driver_deployment::OWNER_UID_LABEL;
use stowage_api::weka::CSI_DRIVER_LABEL;
use stowage_kubernetes::answer;
use tokio::sync::watch;

use super::names::Names;
use crate::driver::Kind;
use crate::served::Versions;
use crate::writer::{Key, Objects};

/// The kinds that a Weka driver has.
const KINDS: [Kind; 9] = [
    Kind::ServiceAccount,
    Kind::ClusterRole,
    Kind::ClusterRoleBinding,
    Kind::Role,
    Kind::RoleBinding,
    Kind::CsiDriver,
    Kind::StorageClass,
    Kind::PodDisruptionBudget,
    Kind::Deployment,
];

/// The objects of drivers. Clones share them.
#[derive(Clone)]
pub struct Children {
    objects: Arc<Mutex<BTreeMap<Kind, Objects>>>,
    listed: watch::Sender<usize>,
}

impl Default for Children {
    fn default() -> Self {
        Self {
            objects: Arc::default(),
            listed: watch::Sender::new(0),
        }
    }
}

impl Children {
    /// Keeps them current, and tells the driver of each that changed. Never ends.
    pub async fn follow(&self, client: &Client, versions: Versions, tell: impl Fn(&str)) {
        let watches = KINDS.map(|kind| self.follow_kind(client, kind, versions, &tell));
        future::join_all(watches).await;
    }

    /// Returns when everything that exists is known.
    pub async fn synced(&self) {
        let mut listed = self.listed.subscribe();
        // The sender lives as long as we do.
        let _ = listed.wait_for(|count| *count >= KINDS.len()).await;
    }

    /// The objects of a driver.
    pub fn of(&self, driver: &str) -> Objects {
        let uid = Names::owner_uid(driver);
        let all = self.objects.lock();
        let all = all.values().flatten();
        let ours = all.filter(|(_, object)| object.labels().get(OWNER_UID_LABEL) == Some(&uid));
        ours.map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// All drivers that have objects.
    pub fn drivers(&self) -> BTreeSet<String> {
        let all = self.objects.lock();
        let all = all.values().flatten();
        all.filter_map(|(_, object)| driver_of(object)).collect()
    }

    async fn follow_kind(
        &self,
        client: &Client,
        kind: Kind,
        versions: Versions,
        tell: &impl Fn(&str),
    ) {
        let api = Api::<DynamicObject>::all_with(client.clone(), &kind.resource(versions));
        let labels = format!("{CSI_DRIVER_LABEL},{OWNER_UID_LABEL}");
        let ours = watcher::Config::default().labels(&labels);
        let mut events = watcher(api, ours).default_backoff().boxed();
        let mut listed = Objects::new();
        let mut is_first = true;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => {
                    listed.insert(Key::of(kind, &object), object);
                }
                Ok(watcher::Event::InitDone) => {
                    self.replace(kind, std::mem::take(&mut listed), tell);
                    if std::mem::take(&mut is_first) {
                        self.listed.send_modify(|count| *count += 1);
                    }
                }
                Ok(watcher::Event::Apply(object)) => {
                    let driver = driver_of(&object);
                    let mut all = self.objects.lock();
                    let known = all.entry(kind).or_default();
                    known.insert(Key::of(kind, &object), object);
                    drop(all);
                    if let Some(driver) = driver {
                        tell(&driver);
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    let mut all = self.objects.lock();
                    all.entry(kind).or_default().remove(&Key::of(kind, &object));
                    drop(all);
                    if let Some(driver) = driver_of(&object) {
                        tell(&driver);
                    }
                }
                Err(error) => {
                    let error = answer::chain(&error);
                    let kind = kind.name();
                    tracing::warn!(kind, error, "A watch does not work; trying again.");
                }
            }
        }
    }

    /// Takes over a new list. What is gone since the one before is news, too.
    fn replace(&self, kind: Kind, listed: Objects, tell: &impl Fn(&str)) {
        let before = self.objects.lock().insert(kind, listed.clone());
        let all = before.unwrap_or_default().into_values();
        let drivers: BTreeSet<_> = all
            .chain(listed.into_values())
            .filter_map(|object| driver_of(&object))
            .collect();
        for driver in &drivers {
            tell(driver);
        }
    }
}

fn driver_of(object: &DynamicObject) -> Option<String> {
    object.labels().get(CSI_DRIVER_LABEL).cloned()
}
