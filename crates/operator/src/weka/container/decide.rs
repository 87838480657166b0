//! From what is seen of a container to what is to be done. Pure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};
use stowage_api::weka::{ContainerState, DesiredState, UpgradeType, WekaContainer};

use super::fetch::{SeenContainer, WantedPod};
use super::is_ready;
use super::mounts::Mounts;
use crate::driver::Object;
use crate::weka::render::{self, NODE_HASH, SETTINGS_HASH};

/// What to do with a pod.
pub(super) enum PodStep {
    /// Make it.
    Create(Box<Object>),
    /// Let it go.
    Delete(Box<Pod>),
}

/// The settings that a client's pod was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    /// Those that its container has, as far as that is known.
    AsWanted,
    /// Others.
    Outdated,
}

/// What to do, and what to tell.
pub(super) struct Decision {
    pub(super) pods: Vec<PodStep>,
    /// The driver whose labels the node must have.
    pub(super) labels: Option<String>,
    /// Drivers whose labels the node must not have.
    pub(super) lost_labels: Vec<String>,
    /// How the container is.
    pub(super) state: ContainerState,
    /// The image that its pod runs.
    pub(super) image: String,
    /// Addresses of its pod.
    pub(super) addresses: Vec<String>,
    /// What is mounted.
    pub(super) mounts: Mounts,
    /// Whether a pod goes because nothing is mounted.
    pub(super) relies_on_mounts: bool,
    /// Drivers of which the node may have labels or volumes.
    pub(super) drivers: Vec<String>,
    /// Why a new image has to wait.
    pub(super) waits_for_mounts: bool,
    /// What its pod was started with.
    pub(super) settings: Settings,
    /// Whether nothing is left that belongs to a container that goes.
    pub(super) is_done: bool,
    /// When to look again though nothing changes.
    pub(super) look_again: Option<Duration>,
}

/// What to do.
pub(super) fn decide(seen: &SeenContainer) -> Decision {
    let container = seen.container.as_ref();
    let pod = seen.client_pod.as_ref();
    let mut decision = Decision {
        pods: Vec::new(),
        labels: None,
        lost_labels: Vec::new(),
        state: state(container, pod),
        image: pod.map(image_of).unwrap_or_default(),
        addresses: pod.map(addresses).unwrap_or_default(),
        mounts: seen.mounts.clone(),
        relies_on_mounts: false,
        drivers: drivers_of(container),
        waits_for_mounts: false,
        settings: Settings::AsWanted,
        is_done: false,
        look_again: None,
    };
    if container.meta().deletion_timestamp.is_some() {
        leave(seen, &mut decision);
    } else {
        keep_client_pod(seen, &mut decision);
        keep_node_pod(seen, &mut decision);
        keep_labels(seen, &mut decision);
    }
    decision
}

/// One that goes. Nothing new comes to its node at once; everything else in its order.
fn leave(seen: &SeenContainer, decision: &mut Decision) {
    let container = seen.container.as_ref();
    decision.lost_labels = drivers_of(container);
    let skips_drain = ["skipActiveMountsCheck", "forceDrain"]
        .iter()
        .any(|it| container.spec.is_overridden(it));
    // Also where the client itself is gone, such as with its namespace: what is mounted must be unmounted all the same.
    let waits_for_mounts = seen.node.is_some() && !skips_drain;
    if waits_for_mounts && seen.mounts.are_there() {
        decision.state = ContainerState::Draining;
        decision.look_again = seen.mounts.look_again();
        // Without it nothing could be unmounted.
        keep_node_pod(seen, decision);
        return;
    }
    decision.state = match container.spec.state {
        Some(DesiredState::Destroying) => ContainerState::Destroying,
        _ => ContainerState::Deleting,
    };
    match &seen.client_pod {
        Some(pod) => decision.pods.extend(deletion(pod)),
        None if !seen.node_pods.is_empty() => {
            decision
                .pods
                .extend(seen.node_pods.iter().filter_map(deletion));
        }
        None => decision.is_done = true,
    }
    decision.relies_on_mounts = waits_for_mounts && !decision.pods.is_empty();
}

/// The pod of the client: there, with the right image as soon as that may change.
fn keep_client_pod(seen: &SeenContainer, decision: &mut Decision) {
    let container = seen.container.as_ref();
    let is_paused = container.spec.state == Some(DesiredState::Paused);
    let Some(node) = container.node() else {
        return;
    };
    let Some(pod) = &seen.client_pod else {
        if is_paused {
            decision.state = ContainerState::Paused;
        } else {
            let image = &container.spec.image;
            let pod = render::client_pod(container, node, image, &seen.config.weka_clients);
            decision.pods.push(PodStep::Create(Box::new(pod)));
        }
        return;
    };
    let started_with = pod.annotations().get(SETTINGS_HASH);
    let has_now = || render::settings_hash(container, node, &seen.config.weka_clients);
    if started_with.is_some_and(|it| *it != has_now()) {
        decision.settings = Settings::Outdated;
    }
    let is_new = image_of(pod) == container.spec.image;
    let policy = container.spec.upgrade_policy_type.clone();
    let policy = policy.unwrap_or_default();
    let is_wanted = !is_new && policy != UpgradeType::Manual;
    let ignores_mounts =
        container.spec.allow_hot_upgrade == Some(true) || policy == UpgradeType::AllAtOnceForce;
    decision.waits_for_mounts = is_wanted && !ignores_mounts && seen.mounts.are_there();
    if decision.waits_for_mounts {
        decision.look_again = seen.mounts.look_again();
    }
    let is_outdated = is_wanted && !decision.waits_for_mounts;
    let goes_anyway = is_paused || is_over(pod);
    if goes_anyway || is_outdated {
        decision.pods.extend(deletion(pod));
        decision.relies_on_mounts = !goes_anyway && !ignores_mounts && !decision.pods.is_empty();
    }
}

/// The CSI node pod: there, as it is rendered now, and no other.
fn keep_node_pod(seen: &SeenContainer, decision: &mut Decision) {
    let wanted = match &seen.wanted_node_pod {
        WantedPod::AsItIs => return,
        WantedPod::None => None,
        WantedPod::Rendered(wanted) => Some(wanted),
    };
    let is_wanted = |pod: &Pod| wanted.is_some_and(|wanted| is_current(pod, wanted));
    let (current, others): (Vec<_>, Vec<_>) = seen.node_pods.iter().partition(|pod| is_wanted(pod));
    decision
        .pods
        .extend(others.iter().filter_map(|pod| deletion(pod)));
    // A new one when the old one is gone: they would have one socket.
    if let Some(wanted) = wanted
        && current.is_empty()
        && others.is_empty()
        && seen.node.is_some()
    {
        decision.pods.push(PodStep::Create(wanted.clone()));
    }
}

/// Whether a pod is what is rendered now: by its hash, and by its images, which anybody can change in place.
fn is_current(pod: &Pod, wanted: &Object) -> bool {
    let same_place = pod.name_any() == wanted.name && pod.namespace() == wanted.namespace;
    let same_hash = pod.annotations().get(NODE_HASH) == wanted.annotations.get(NODE_HASH);
    let images = |name: &str| {
        let containers = wanted.body["spec"]["containers"].as_array()?;
        let found = containers.iter().find(|it| it["name"] == name)?;
        found["image"].as_str().map(str::to_owned)
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut containers = containers.filter(|it| images(&it.name) != it.image);
    same_place && same_hash && containers.next().is_none() && !is_over(pod)
}

/// The labels by which volumes find nodes. They come when the client serves, and go when it has not for a while: a client
/// that is restarted must not move anybody.
fn keep_labels(seen: &SeenContainer, decision: &mut Decision) {
    let container = seen.container.as_ref();
    let driver = &container.spec.csi_driver_name;
    let others = drivers_of(container).into_iter();
    decision.lost_labels = others.filter(|it| it != driver).collect();
    // What was mounted under another name, or before it was switched off, is mounted through this client all the same.
    decision
        .drivers
        .retain(|it| it == driver || seen.mounts.attached.contains_key(it));
    if driver.is_empty() {
        return;
    }
    let csi = &seen.config.csi;
    let pod = seen.client_pod.as_ref();
    let is_healthy = pod.is_some_and(is_ready);
    if is_healthy || !csi.prevent_new_workload_on_client_container_not_running {
        decision.labels = Some(driver.clone());
        return;
    }
    // Without a pod a new one is on its way; how long that takes shows on the new one.
    let Some(since) = pod.and_then(unready_since) else {
        return;
    };
    let patience = Duration::from_secs(csi.node_label_patience_seconds.into());
    let waited = Duration::try_from(seen.now.duration_since(since)).unwrap_or_default();
    match patience.saturating_sub(waited) {
        Duration::ZERO => decision.lost_labels.push(driver.clone()),
        left => {
            let soonest = decision.look_again.map_or(left, |it| it.min(left));
            decision.look_again = Some(soonest);
        }
    }
}

/// Drivers of which the node may have labels or volumes because of this container.
pub(super) fn drivers_of(container: &WekaContainer) -> Vec<String> {
    let status = container.status.as_ref();
    let mut drivers = status.map_or(Vec::new(), |it| it.csi_driver_names.clone());
    let current = &container.spec.csi_driver_name;
    if !current.is_empty() && !drivers.contains(current) {
        drivers.push(current.clone());
    }
    drivers
}

/// How to let a pod go, unless its kubelet is at it. The server deletes a pod that no kubelet has in two steps; where the
/// client goes away in between, as one that is killed does, the first stays: marked, with no grace, and nobody's.
fn deletion(pod: &Pod) -> Option<PodStep> {
    let metadata = pod.meta();
    let is_going =
        metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds != Some(0);
    (!is_going).then(|| PodStep::Delete(Box::new(pod.clone())))
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|it| it.phase.as_deref())
        .unwrap_or_default()
}

/// Whether a pod has ended: nobody starts it again.
fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}

fn state(container: &WekaContainer, pod: Option<&Pod>) -> ContainerState {
    let before = container.status.as_ref().map(|it| it.status.clone());
    let served = matches!(
        before,
        Some(ContainerState::Running | ContainerState::Unhealthy)
    );
    match pod {
        Some(pod) if is_ready(pod) => ContainerState::Running,
        Some(pod) if phase(pod) == "Running" && served => ContainerState::Unhealthy,
        Some(pod) if phase(pod) == "Running" => ContainerState::PodRunning,
        _ => ContainerState::PodNotRunning,
    }
}

fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.iter().flat_map(|it| &it.conditions).flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    let since = ready.find_map(|it| it.last_transition_time.clone());
    let since = since.or_else(|| pod.meta().creation_timestamp.clone());
    since.map(|time| time.0)
}

fn image_of(pod: &Pod) -> String {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let image = containers.next().and_then(|it| it.image.clone());
    image.unwrap_or_default()
}

fn addresses(pod: &Pod) -> Vec<String> {
    let status = pod.status.as_ref();
    let listed = status.and_then(|it| it.pod_ips.clone()).unwrap_or_default();
    listed.into_iter().map(|it| it.ip).collect()
}
