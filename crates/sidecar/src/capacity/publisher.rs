//! Asks the driver how much space there is, and writes what has changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::{GetCapacityRequest, Topology};
use stowage_kubernetes::answer::{self, Answer, is_gone};
use stowage_kubernetes::deletion::delete;
use stowage_kubernetes::queue::{Key, Queue, Verdict};

use super::plan::{self, Free, Spot};
use crate::args::Capacity;
use crate::cluster::Cluster;
use crate::cluster::class::Class;
use crate::cluster::volume::Volume;
use crate::driver_call;
use crate::intent::Segment;
use crate::provision::{Accessibility, Scope};
use crate::role::Context;

/// The key of all objects together: which there should be, and which are there.
pub(super) const EVERYTHING: &str = "";

/// Keeps the objects as they should be.
pub(super) struct CapacityPublisher {
    cluster: Cluster,
    controller: ControllerClient<Connection>,
    objects: Api<DynamicObject>,
    settings: Capacity,
    version: &'static str,
    accessibility: Accessibility,
    labels: BTreeMap<String, String>,
    owner: Option<OwnerReference>,
    queue: Queue,
    known: Mutex<HashMap<String, Known>>,
    metrics: CapacityMetrics,
}

/// An object that should be there.
#[derive(Clone, Debug)]
struct Known {
    spot: Spot,
    /// `None`: it has yet to be made.
    object: Option<Published>,
}

#[derive(Clone, Debug)]
struct Published {
    name: String,
    uid: String,
    free: Option<Free>,
}

/// Counted under upstream's names.
struct CapacityMetrics {
    goal: Gauge,
    current: Gauge,
    obsolete: Gauge,
}

impl CapacityPublisher {
    pub(super) fn new(
        context: &Context,
        settings: Capacity,
        version: &'static str,
        accessibility: Accessibility,
        owner: Option<OwnerReference>,
        queue: &Queue,
    ) -> Self {
        let connection = context.driver.connection();
        let timeout = context.settings.provision.timeout;
        let kind = version.trim_start_matches("storage.k8s.io/");
        let kind = GroupVersionKind::gvk("storage.k8s.io", kind, "CSIStorageCapacity");
        let kind = ApiResource::from_gvk_with_plural(&kind, "csistoragecapacities");
        let client = context.client.clone();
        let node = context.settings.own_node.as_ref();
        Self {
            cluster: context.cluster.clone(),
            controller: ControllerClient::new(connection.with_timeout(timeout)),
            objects: Api::namespaced_with(client, &settings.namespace, &kind),
            settings,
            version,
            accessibility,
            labels: plan::labels(
                context.driver.name().as_str(),
                node.map(|node| node.name.as_str()),
            ),
            owner,
            queue: queue.clone(),
            known: Mutex::default(),
            metrics: CapacityMetrics::register(context),
        }
    }

    /// Works on one object, or on all. Called twice: the second finds nothing to write.
    pub(super) async fn work(self: Arc<Self>, key: Key) -> Verdict {
        let done = if &*key == EVERYTHING {
            self.take_stock().await
        } else {
            self.publish(&key).await
        };
        match done {
            Ok(()) => Verdict::Done,
            Err(reason) => {
                tracing::warn!(
                    what = &*key,
                    reason,
                    "Free capacity cannot be published; trying again."
                );
                Verdict::Retry(reason)
            }
        }
    }

    /// The objects that a volume takes space from.
    pub(super) fn keys_of(&self, volume: &Volume) -> Vec<String> {
        let known = self.known.lock();
        let near = known.iter().filter(|(_, known)| {
            let segment = known.spot.segment.clone();
            Scope::Node(Some(segment)).has(volume)
        });
        near.map(|(key, _)| key.clone()).collect()
    }

    /// Compares the objects that there are with those that there should be. What should not be goes, and every other
    /// one is looked at.
    async fn take_stock(&self) -> Result<(), String> {
        let selector: Vec<_> = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let ours = ListParams::default().labels(&selector.join(","));
        let found = self.objects.list(&ours).await;
        let found = found.map_err(|error| self.explain("list", &error))?;
        let mut known: HashMap<_, _> = self
            .spots()
            .into_iter()
            .map(|spot| (spot.key(), Known { spot, object: None }))
            .collect();
        let mut obsolete = Vec::new();
        for object in found {
            let published = Published {
                name: object.name_any(),
                uid: object.uid().unwrap_or_default(),
                free: Free::read(&object.data),
            };
            let key = Spot::read(&object.data).map(|spot| spot.key());
            let place = key.and_then(|key| known.get_mut(&key));
            match place.filter(|known| known.object.is_none()) {
                Some(known) => known.object = Some(published),
                None => obsolete.push(published),
            }
        }
        self.metrics.obsolete.set(gauge_value(obsolete.len()));
        let keys: Vec<_> = known.keys().cloned().collect();
        *self.known.lock() = known;
        self.show_counts();
        for key in keys {
            self.queue.add(key);
        }
        for object in obsolete {
            self.remove(&object).await?;
        }
        self.metrics.obsolete.set(0);
        Ok(())
    }

    /// All objects that there should be.
    fn spots(&self) -> Vec<Spot> {
        let segments: Vec<Segment> = match &self.accessibility {
            Accessibility::Everywhere => vec![plan::EVERYWHERE],
            Accessibility::OwnNode(segment) => vec![segment.clone().unwrap_or_default()],
            Accessibility::Segments(topologies) => topologies.segments().all().cloned().collect(),
        };
        let classes = self.cluster.classes.store().all();
        let classes = classes.iter().filter(|class| self.is_published(class));
        classes
            .flat_map(|class| {
                segments.iter().map(|segment| Spot {
                    class: class.name.clone(),
                    segment: segment.clone(),
                })
            })
            .collect()
    }

    /// The scheduler reads it only where a volume is made for a pod.
    fn is_published(&self, class: &Class) -> bool {
        class.waits_for_consumer || self.settings.immediate
    }

    async fn publish(&self, key: &str) -> Result<(), String> {
        let Some(known) = self.known.lock().get(key).cloned() else {
            return Ok(());
        };
        let class = self.cluster.classes.store().get(&known.spot.class);
        let Some(class) = class else {
            return Ok(());
        };
        let free = self.ask(&class, &known.spot.segment).await?;
        let published = match known.object {
            Some(published) if published.free.as_ref() == Some(&free) => return Ok(()),
            Some(published) => self.change(published, free).await?,
            None => Some(self.make(&known.spot, free).await?),
        };
        if let Some(known) = self.known.lock().get_mut(key) {
            known.object = published;
        }
        self.show_counts();
        Ok(())
    }

    /// The parameters of the class go to the driver as they are, which is how upstream does it.
    async fn ask(&self, class: &Class, segment: &Segment) -> Result<Free, String> {
        let request = GetCapacityRequest {
            volume_capabilities: Vec::new(),
            parameters: class.parameters.clone(),
            accessible_topology: (!segment.is_empty()).then(|| Topology {
                segments: segment.clone(),
            }),
        };
        let answer = self.controller.clone().get_capacity(request).await;
        let answer = answer.map_err(|status| driver_call::status(&status))?;
        Free::of(answer.get_ref(), self.version).map_err(|error| error.to_string())
    }

    async fn make(&self, spot: &Spot, free: Free) -> Result<Published, String> {
        let object = plan::object(spot, &free, &self.labels, self.owner.as_ref());
        let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
        let made = self.objects.create(&PostParams::default(), &object).await;
        let made = made.map_err(|error| self.explain("create", &error))?;
        Ok(Published {
            name: made.name_any(),
            uid: made.uid().unwrap_or_default(),
            free: Some(free),
        })
    }

    /// `None`: somebody took the object away.
    async fn change(
        &self,
        mut published: Published,
        free: Free,
    ) -> Result<Option<Published>, String> {
        let patch = Patch::Merge(free.patch(&published.uid));
        let params = PatchParams::default();
        match self.objects.patch(&published.name, &params, &patch).await {
            Ok(_) => {
                published.free = Some(free);
                Ok(Some(published))
            }
            Err(error) if is_gone(&error) => {
                self.queue.add(EVERYTHING);
                Ok(None)
            }
            Err(error) => Err(self.explain("patch", &error)),
        }
    }

    async fn remove(&self, object: &Published) -> Result<(), String> {
        let deleted = delete(&self.objects, &object.name, &object.uid).await;
        deleted.map_err(|error| self.explain("delete", &error))
    }

    fn explain(&self, verb: &str, error: &kube::Error) -> String {
        match Answer::of(error) {
            Answer::Forbidden(_) => format!(
                "the service account may not {verb} csistoragecapacities in namespace `{}`: add `{verb}` on \
                 `csistoragecapacities` to its Role there",
                self.settings.namespace
            ),
            _ => answer::chain(error),
        }
    }

    fn show_counts(&self) {
        let known = self.known.lock();
        let there = known.values().filter(|known| known.object.is_some());
        self.metrics.current.set(gauge_value(there.count()));
        self.metrics.goal.set(gauge_value(known.len()));
    }
}

impl CapacityMetrics {
    fn register(context: &Context) -> Self {
        let gauge = |name: &str, about: &str| {
            let gauge = Gauge::default();
            context.metrics.register(name, about, gauge.clone());
            gauge
        };
        Self {
            goal: gauge(
                "csistoragecapacities_desired_goal",
                "CSIStorageCapacity objects that there should be",
            ),
            current: gauge(
                "csistoragecapacities_desired_current",
                "CSIStorageCapacity objects that there should be and are",
            ),
            obsolete: gauge(
                "csistoragecapacities_obsolete",
                "CSIStorageCapacity objects that are to be deleted",
            ),
        }
    }
}

fn gauge_value(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
