//! What makes an instance worth another look: its objects and pods, and what changes around it.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::DynamicObject;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use stowage_api::driver_deployment::{OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, OWNER_UID_LABEL};
use stowage_kubernetes::answer;

use super::context::Guarded;
use super::pods;
use crate::cluster::{Cluster, Concern};
use crate::driver::{BudgetVersion, Kind};
use crate::gather::gather;
use crate::rights::Rights;

/// Changes that come together are handled together.
const WAIT: Duration = Duration::from_millis(100);

type Triggers = BoxStream<'static, ObjectRef<Guarded>>;

/// The instances themselves, each time that one changes.
pub(super) fn own(store: Writer<Guarded>, client: &Client, rights: &Rights) -> Triggers {
    let (api, rights) = (Api::<Guarded>::all(client.clone()), rights.clone());
    let instances = watcher(api, watcher::Config::default()).default_backoff();
    let instances = instances.reflect(store).applied_objects();
    let seen = instances.filter_map(move |it| ready(seen(it, &rights)));
    seen.map(|instance| ObjectRef::from_obj(&instance)).boxed()
}

/// Instances around which something changed.
pub(super) fn around(
    instances: &Store<Guarded>,
    client: &Client,
    budget: BudgetVersion,
    cluster: &Cluster,
    rights: &Rights,
) -> Triggers {
    let owned = watcher::Config::default().labels(OWNER_UID_LABEL);
    // Where the cluster lacks snapshot classes a watch would only fail; the facts about the cluster watch them too.
    let kinds = Kind::ALL.into_iter();
    let kinds = kinds.filter(|kind| *kind != Kind::VolumeSnapshotClass);
    let mut all: Vec<Triggers> = kinds
        .map(|kind| {
            let resource = kind.resource(budget);
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            watched(api, owned.clone(), rights, owner_of)
        })
        .collect();
    for (label, suffix) in pods::WORKLOADS {
        let labelled = watcher::Config::default().labels(label);
        let api = Api::<Pod>::all(client.clone());
        all.push(watched(api, labelled, rights, move |pod| {
            pods::owner_of(pod, label, suffix)
        }));
    }
    // A DaemonSet says only there why it has no pods, such as a quota or a policy that refuses them.
    let refused = "reason=FailedCreate,involvedObject.kind=DaemonSet";
    let refused = watcher::Config::default().fields(refused);
    let events = Api::<Event>::all(client.clone());
    all.push(watched(events, refused, rights, owner_of_refused));
    all.push(concerned(cluster.changes(), instances.clone()));
    gather(select_all(all), WAIT).boxed()
}

/// All instances, each time that something changes for all.
pub(super) fn everybody(
    changes: impl Stream<Item = ()> + Send + 'static,
    instances: &Store<Guarded>,
) -> Triggers {
    concerned(changes.map(|()| Concern::Everybody), instances.clone())
}

/// The instances of drivers that a change concerns.
fn concerned(
    changes: impl Stream<Item = Concern> + Send + 'static,
    instances: Store<Guarded>,
) -> Triggers {
    let instances = move |concern: Concern| {
        let all = instances.state().into_iter();
        let concerned = all.filter(move |it| is_concerned(it, &concern));
        stream::iter(concerned.map(|it| ObjectRef::from_obj(&*it)))
    };
    changes.flat_map(instances).boxed()
}

/// An instance that cannot be read may be anybody's.
fn is_concerned(instance: &Guarded, concern: &Concern) -> bool {
    let (Concern::Driver(driver), Ok(instance)) = (concern, &instance.0) else {
        return true;
    };
    let status = instance.status.as_ref();
    let runs = status.and_then(|it| it.driver_name.as_ref());
    instance.spec.driver_name == *driver || runs == Some(driver)
}

/// The instances that objects belong to, whenever one changes or goes.
fn watched<K>(
    api: Api<K>,
    config: watcher::Config,
    rights: &Rights,
    owner: impl Fn(&K) -> Option<ObjectRef<Guarded>> + Send + Sync + 'static,
) -> Triggers
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let rights = rights.clone();
    let objects = watcher(api, config).default_backoff().touched_objects();
    let owners = objects.map(move |object| owner(&seen(object, &rights)?));
    owners.filter_map(ready).boxed()
}

/// What a watch saw; one that was interrupted begins again by itself.
fn seen<T>(object: Result<T, watcher::Error>, rights: &Rights) -> Option<T> {
    object
        .inspect_err(|error| {
            rights.recheck_if_forbidden(error);
            let error = answer::chain(error);
            tracing::debug!(error, "A watch was interrupted and is started again.");
        })
        .ok()
}

/// The instance that a child belongs to, by its labels.
fn owner_of(child: &DynamicObject) -> Option<ObjectRef<Guarded>> {
    let labels = child.labels();
    let (namespace, name) = (
        labels.get(OWNER_NAMESPACE_LABEL)?,
        labels.get(OWNER_NAME_LABEL)?,
    );
    Some(ObjectRef::new(name).within(namespace))
}

fn owner_of_refused(event: &Event) -> Option<ObjectRef<Guarded>> {
    let set = &event.involved_object;
    let name = set.name.as_ref()?.strip_suffix("-node")?;
    Some(ObjectRef::new(name).within(set.namespace.as_ref()?))
}
