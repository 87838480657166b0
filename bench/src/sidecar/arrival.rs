//! When objects became what they should be, as somebody sees it who watches them.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ApiResource, Object};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Nothing here takes longer on a machine that is any use for measurements.
const LIMIT: Duration = Duration::from_secs(900);

/// The little that is read of an object: the watcher must not be what is measured.
pub struct Seen(Object<Spec, Status>);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    claim_ref: Option<ObjectReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    attached: bool,
    capacity: Option<BTreeMap<String, Quantity>>,
    ready_to_use: bool,
}

impl Seen {
    pub fn is_in(&self, namespace: &str) -> bool {
        self.0.metadata.namespace.as_deref() == Some(namespace)
    }

    pub fn has_name(&self, name: &str) -> bool {
        self.0.metadata.name.as_deref() == Some(name)
    }

    /// Whether a snapshot can be used, or that of a content.
    pub fn is_ready(&self) -> bool {
        let status = self.0.status.as_ref();
        status.is_some_and(|status| status.ready_to_use)
    }

    /// Whether a claim has this much storage.
    pub fn has_storage(&self, size: &str) -> bool {
        let capacity = || self.0.status.as_ref()?.capacity.as_ref()?.get("storage");
        capacity().is_some_and(|storage| storage.0 == size)
    }

    pub fn has_annotation(&self, key: &str) -> bool {
        self.0.annotations().contains_key(key)
    }

    /// The namespace of a volume's claim.
    pub fn claimed_in(&self) -> Option<&str> {
        self.0.spec.claim_ref.as_ref()?.namespace.as_deref()
    }

    pub fn is_bound(&self) -> bool {
        let status = self.0.status.as_ref();
        status.is_some_and(|status| status.phase == "Bound")
    }

    pub fn is_attached(&self) -> bool {
        self.0.status.as_ref().is_some_and(|status| status.attached)
    }
}

/// Objects that are watched.
pub struct Arrivals {
    times: watch::Receiver<HashMap<String, Instant>>,
    watching: JoinHandle<()>,
}

impl Arrivals {
    /// Watches a kind; an object has arrived when it first is as `wished`. Returns when what is there already is known.
    pub async fn of<K>(
        client: &Client,
        wished: impl Fn(&Seen) -> bool + Send + Sync + 'static,
    ) -> anyhow::Result<Self>
    where
        K: Resource<DynamicType = ()>,
    {
        let kind = ApiResource::erase::<K>(&());
        let api = Api::<Object<Spec, Status>>::all_with(client.clone(), &kind);
        let (times_of, times) = watch::channel(HashMap::new());
        let (listed, mut known) = watch::channel(false);
        let watching = tokio::spawn(async move {
            let mut changes = pin!(watcher(api, watcher::Config::default()).default_backoff());
            while let Some(event) = changes.next().await {
                match event {
                    Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                        let seen = Seen(object);
                        if wished(&seen) {
                            note(&times_of, seen.0.name_any());
                        }
                    }
                    Ok(watcher::Event::InitDone) => drop(listed.send_replace(true)),
                    // A watch that breaks is begun again.
                    Ok(watcher::Event::Init | watcher::Event::Delete(_)) | Err(_) => {}
                }
            }
        });
        known.wait_for(|known| *known).await?;
        Ok(Self { times, watching })
    }

    /// Waits for `count` of them; when they came, in order.
    pub async fn all(&mut self, count: usize) -> anyhow::Result<Vec<Instant>> {
        let all = self.times.wait_for(|times| times.len() >= count);
        let Ok(all) = tokio::time::timeout(LIMIT, all).await else {
            let came = self.times.borrow().len();
            bail!("only {came} of {count} objects came within {LIMIT:?}");
        };
        let mut times: Vec<Instant> = all?.values().copied().collect();
        times.sort_unstable();
        Ok(times)
    }
}

/// The first time counts.
fn note(times: &watch::Sender<HashMap<String, Instant>>, name: String) {
    times.send_modify(|times| {
        times.entry(name).or_insert_with(Instant::now);
    });
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
