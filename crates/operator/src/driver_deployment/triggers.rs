//! What makes an instance worth another look: its objects and pods, and what changes around it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Event;
use kube::api::DynamicObject;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use stowage_api::driver_deployment::{OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, OWNER_UID_LABEL};
use stowage_kubernetes::answer;

use super::condition::Reason;
use super::context::Guarded;
use crate::cluster::{Cluster, Concern, instance_of};
use crate::driver::Kind;
use crate::gather::gather;
use crate::metrics::OperatorMetrics;
use crate::rights::Rights;
use crate::served::Versions;

/// Changes that come together are handled together.
const WAIT: Duration = Duration::from_millis(100);

type Triggers = BoxStream<'static, ObjectRef<Guarded>>;

/// The instances themselves, each time that one changes; and those that wait for a driver which one of them lets go.
pub(super) fn own(
    store: Writer<Guarded>,
    client: &Client,
    rights: &Rights,
    metrics: OperatorMetrics,
) -> Triggers {
    let (api, rights) = (Api::<Guarded>::all(client.clone()), rights.clone());
    let instances = watcher(api, watcher::Config::default()).default_backoff();
    let known = store.as_reader();
    let instances = instances.reflect(store);
    let events = instances.filter_map(move |it| ready(seen(it, &rights)));
    let mut running = Running::default();
    let triggers = events.flat_map(move |event| {
        // One without a finalizer goes without another look at it.
        if let watcher::Event::Delete(_) | watcher::Event::InitDone = event {
            let uids = known.state();
            metrics.keep_only(&uids.iter().filter_map(|it| it.uid()).collect());
        }
        let let_go = running.take_in(&event).map(Concern::Driver);
        let all = known.state().into_iter();
        let waiting = all.filter(|it| let_go.as_ref().is_some_and(|go| is_concerned(it, go)));
        let mut triggers: Vec<_> = waiting.map(|it| ObjectRef::from_obj(&*it)).collect();
        if let watcher::Event::Apply(changed) | watcher::Event::InitApply(changed) = &event {
            triggers.push(ObjectRef::from_obj(changed));
        }
        stream::iter(triggers)
    });
    triggers.boxed()
}

/// Which driver each instance runs, by uid.
#[derive(Default)]
struct Running(HashMap<String, String>);

impl Running {
    /// The driver that an instance no longer runs, because it is gone or runs another.
    fn take_in(&mut self, event: &watcher::Event<Guarded>) -> Option<String> {
        let (instance, is_gone) = match event {
            watcher::Event::Apply(instance) | watcher::Event::InitApply(instance) => {
                (instance, false)
            }
            watcher::Event::Delete(instance) => (instance, true),
            watcher::Event::Init | watcher::Event::InitDone => return None,
        };
        let status = instance.0.as_ref().ok().and_then(|it| it.status.as_ref());
        let runs = status.and_then(|it| it.driver_name.clone());
        let uid = instance.uid().unwrap_or_default();
        let before = match runs.filter(|_| !is_gone) {
            Some(runs) => self.0.insert(uid.clone(), runs),
            None => self.0.remove(&uid),
        };
        before.filter(|before| self.0.get(&uid) != Some(before))
    }
}

/// Instances around which something changed.
pub(super) fn around(
    instances: &Store<Guarded>,
    client: &Client,
    versions: Versions,
    cluster: &Cluster,
    rights: &Rights,
) -> Triggers {
    let owned = watcher::Config::default().labels(OWNER_UID_LABEL);
    // Where the cluster lacks a kind a watch would only fail; the facts about the cluster watch these.
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_everywhere());
    let mut all: Vec<Triggers> = kinds
        .map(|kind| {
            let resource = kind.resource(versions);
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            watched(api, owned.clone(), rights, owner_of)
        })
        .collect();
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
        let all = instances.state();
        let mut concerned: Vec<_> = all.iter().filter(|it| is_concerned(it, &concern)).collect();
        if concerned.is_empty() && matches!(concern, Concern::Driver(_)) {
            // A name that nobody has may be the real one of a driver that no kubelet knows.
            concerned.extend(all.iter().filter(|it| is_unknown_to_kubelets(it)));
        }
        let concerned = concerned.into_iter().map(|it| ObjectRef::from_obj(&**it));
        stream::iter(concerned.collect::<Vec<_>>())
    };
    changes.flat_map(instances).boxed()
}

fn is_unknown_to_kubelets(instance: &Guarded) -> bool {
    let status = instance.0.as_ref().ok().and_then(|it| it.status.as_ref());
    let mut conditions = status.iter().flat_map(|it| &it.conditions).flatten();
    let told = [Reason::NotRegistered, Reason::DriverNameMismatch].map(Reason::as_str);
    conditions.any(|it| it.reason.as_deref().is_some_and(|it| told.contains(&it)))
}

/// An instance that cannot be read may be anybody's.
fn is_concerned(instance: &Guarded, concern: &Concern) -> bool {
    let Ok(instance) = &instance.0 else {
        return true;
    };
    match concern {
        Concern::Everybody => true,
        Concern::Driver(driver) => {
            let status = instance.status.as_ref();
            let runs = status.and_then(|it| it.driver_name.as_ref());
            instance.spec.driver_name == *driver || runs == Some(driver)
        }
        Concern::Instance { namespace, name } => {
            instance.namespace().as_ref() == Some(namespace) && instance.name_any() == *name
        }
    }
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
    let name = instance_of(set.name.as_ref()?, "-node")?;
    Some(ObjectRef::new(name).within(set.namespace.as_ref()?))
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use serde_json::json;

    use super::*;

    fn instance(runs: &str) -> Guarded {
        let instance = serde_json::from_value(json!({
            "apiVersion": "csidriver.storage.openshift.io/v1alpha1", "kind": "CSIDriverDeployment",
            "metadata": {"name": "i", "namespace": "n", "uid": "u"},
            "spec": {
                "driverName": "wanted", "driverPerNodeTemplate": {}, "driverSocket": "/s", "nodeUpdateStrategy": "Rolling",
            },
            "status": {"driverName": runs},
        }));
        DeserializeGuard(Ok(instance.unwrap()))
    }

    #[test]
    fn a_driver_is_let_go_by_an_instance_that_runs_another_or_is_gone() {
        let mut running = Running::default();
        let mut take_in = |event| running.take_in(&event);
        assert_eq!(take_in(watcher::Event::InitApply(instance("a"))), None);
        assert_eq!(take_in(watcher::Event::Apply(instance("a"))), None);
        let other = take_in(watcher::Event::Apply(instance("b")));
        assert_eq!(other.as_deref(), Some("a"));
        let gone = take_in(watcher::Event::Delete(instance("b")));
        assert_eq!(gone.as_deref(), Some("b"));
        assert_eq!(take_in(watcher::Event::Delete(instance("b"))), None);
    }
}
