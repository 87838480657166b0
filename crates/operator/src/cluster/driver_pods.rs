//! Pods of drivers that do not run, and why. The others are counted by their workloads: nothing is kept of them, and of all
//! pods only what tells is read.

mod failure;

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde::Deserialize;
use stowage_api::driver_deployment::{DAEMON_SET_LABEL, DEPLOYMENT_LABEL};
use stowage_kubernetes::answer;

pub use self::failure::PodFailure;
use super::{Cluster, Concern};
use crate::rights::Rights;

stowage_kubernetes::reduced!(
    /// A Pod: where it is, and how it is.
    DriverPod as Pod { spec: Spec, status: PodStatus }
);

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    node_name: Option<String>,
}

/// The labels of pods, which are the names of their workloads, and what those names end with after that of the instance.
pub const WORKLOADS: [(&str, &str); 2] = [
    (DAEMON_SET_LABEL, "-node"),
    (DEPLOYMENT_LABEL, "-controller"),
];

/// The instance whose workload has this name. Nodes that need other pods have a workload of their own, whose name ends with a
/// word without `-`.
pub fn instance_of<'a>(workload: &'a str, suffix: &str) -> Option<&'a str> {
    workload.strip_suffix(suffix).or_else(|| {
        let (rest, _) = workload.rsplit_once('-')?;
        rest.strip_suffix(suffix)
    })
}

/// Namespace and name of a workload.
type Workload = (String, String);

/// By label, workload and name of the pod.
type Failures = BTreeMap<Workload, BTreeMap<String, PodFailure>>;

/// The pods that do not run, by label.
#[derive(Default)]
pub(super) struct DriverPods(Mutex<BTreeMap<&'static str, Failures>>);

impl Cluster {
    /// The pod of a workload that tells most about why it does not run.
    pub fn failing_pod(&self, label: &str, namespace: &str, workload: &str) -> Option<PodFailure> {
        let key = (namespace.to_owned(), workload.to_owned());
        let all = self.driver_pods.0.lock();
        let pods = all.get(label)?.get(&key)?.values();
        pods.min_by_key(|it| it.reported_name.is_none()).cloned()
    }

    /// Keeps the failures of pods with a label current. Never ends.
    pub(super) async fn follow_driver_pods(
        &self,
        client: Client,
        (label, suffix): (&'static str, &'static str),
        rights: &Rights,
    ) {
        let config = watcher::Config::default().labels(label);
        let mut events = watcher(Api::<DriverPod>::all(client), config)
            .default_backoff()
            .boxed();
        let mut listed = Failures::new();
        while let Some(event) = events.next().await {
            let concerned = match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    BTreeSet::new()
                }
                Ok(watcher::Event::InitApply(pod)) => {
                    put(&mut listed, label, &pod);
                    BTreeSet::new()
                }
                Ok(watcher::Event::InitDone) => {
                    let after = std::mem::take(&mut listed);
                    let before = self.driver_pods.0.lock().insert(label, after.clone());
                    let all = before.into_iter().flat_map(Failures::into_keys);
                    all.chain(after.into_keys()).collect()
                }
                Ok(watcher::Event::Apply(pod)) => {
                    let mut all = self.driver_pods.0.lock();
                    let is_news = put(all.entry(label).or_default(), label, &pod);
                    workload(&pod, label)
                        .filter(|_| is_news)
                        .into_iter()
                        .collect()
                }
                // Whoever removes a driver waits for its pods to go.
                Ok(watcher::Event::Delete(pod)) => {
                    let key = workload(&pod, label);
                    if let Some(key) = &key {
                        let mut all = self.driver_pods.0.lock();
                        remove(all.entry(label).or_default(), key, &pod.name_any());
                    }
                    key.into_iter().collect()
                }
                Err(error) => {
                    rights.recheck_if_forbidden(&error);
                    let error = answer::chain(&error);
                    tracing::debug!(error, "The watch of driver pods is started again.");
                    BTreeSet::new()
                }
            };
            self.tell(concerned.into_iter().filter_map(|(namespace, name)| {
                let name = instance_of(&name, suffix)?.to_owned();
                Some(Concern::Instance { namespace, name })
            }));
        }
    }
}

/// The workload that a pod belongs to.
fn workload(pod: &DriverPod, label: &str) -> Option<Workload> {
    let name = pod.labels().get(label)?.clone();
    Some((pod.namespace()?, name))
}

/// Takes in what a pod looks like; whether that is news.
fn put(failures: &mut Failures, label: &str, pod: &DriverPod) -> bool {
    let Some(key) = workload(pod, label) else {
        return false;
    };
    let name = pod.name_any();
    match failure::of(pod) {
        None => remove(failures, &key, &name),
        Some(failure) => {
            let pods = failures.entry(key).or_default();
            pods.insert(name, failure.clone()) != Some(failure)
        }
    }
}

/// Forgets a pod; whether it was known.
fn remove(failures: &mut Failures, workload: &Workload, pod: &str) -> bool {
    let Some(pods) = failures.get_mut(workload) else {
        return false;
    };
    let was_known = pods.remove(pod).is_some();
    if pods.is_empty() {
        failures.remove(workload);
    }
    was_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_tells_its_instance() {
        for (workload, instance) in [
            ("csi-node", Some("csi")),
            ("csi-node-selinux", Some("csi")),
            ("my-node-a-node", Some("my-node-a")),
            ("my-node-a-node-b", Some("my-node-a")),
            ("other", None),
            ("other-b", None),
        ] {
            assert_eq!(instance_of(workload, "-node"), instance, "{workload}");
        }
    }
}
