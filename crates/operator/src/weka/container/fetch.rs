//! What a decision about a container is made on.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};
use stowage_api::weka::{WekaClient, WekaContainer};

use super::decide::drivers_of;
use super::mounts::Mounts;
use crate::config::OperatorConfig;
use crate::driver::Object;
use crate::weka::cluster::client_of;
use crate::weka::context::Context;
use crate::weka::driver::Asking;
use crate::weka::nodes::Node;
use crate::weka::plan::title;
use crate::weka::render;

/// What is seen of a container.
pub(super) struct SeenContainer {
    pub(super) container: Arc<WekaContainer>,
    /// Its node, if that is there.
    pub(super) node: Option<Node>,
    /// Its own pod.
    pub(super) client_pod: Option<Pod>,
    /// CSI node pods beside it.
    pub(super) node_pods: Vec<Pod>,
    /// The CSI node pod that it should have.
    pub(super) wanted_node_pod: WantedPod,
    /// What is mounted through it.
    pub(super) mounts: Mounts,
    pub(super) config: OperatorConfig,
    pub(super) now: Timestamp,
}

/// A CSI node pod that there should be.
pub(super) enum WantedPod {
    /// None.
    None,
    /// Whichever is there: its driver can neither be changed nor removed now.
    AsItIs,
    /// This one.
    Rendered(Box<Object>),
}

pub(super) fn fetch(container: &Arc<WekaContainer>, context: &Context) -> SeenContainer {
    let uid = container.uid().unwrap_or_default();
    let name = container.node().unwrap_or_default();
    let node = context.cluster.nodes.store().get(name);
    let client_pod = context.cluster.pod(&title(container.as_ref()));
    let node_pods = context.cluster.pods_beside(&uid);
    let config = context.config.borrow().clone();
    let attached = |driver: &str| context.cluster.attached(driver, name);
    let mounts = Mounts::of(&drivers_of(container), attached);
    SeenContainer {
        node: node.map(|node| node.0.clone()),
        client_pod: client_pod.map(|it| it.pod.clone()),
        node_pods: node_pods.iter().map(|it| it.pod.clone()).collect(),
        wanted_node_pod: wanted_node_pod(container, name, &config, context),
        mounts,
        config,
        now: Timestamp::now(),
        container: Arc::clone(container),
    }
}

fn wanted_node_pod(
    container: &WekaContainer,
    node: &str,
    config: &OperatorConfig,
    context: &Context,
) -> WantedPod {
    let driver = &container.spec.csi_driver_name;
    if driver.is_empty() || !is_first_on_node(container, node, context) {
        return WantedPod::None;
    }
    let plan = context.plan();
    let client = client(container, context);
    let outcome = context.outcomes.lock().get(driver).cloned();
    let outcome = outcome.unwrap_or_default();
    let is_blocked = outcome.asking == Asking::Unknown || outcome.is_node_account_foreign;
    match (plan.drivers.get(driver), client) {
        (Some(_), Some(_)) if is_blocked => WantedPod::AsItIs,
        (Some(wanted), Some(client)) => {
            let hash = outcome.asking.key_hash();
            let pod = render::node_pod(wanted, &client, container, node, config, hash);
            WantedPod::Rendered(Box::new(pod))
        }
        _ if plan.held.contains(driver) => WantedPod::AsItIs,
        _ => WantedPod::None,
    }
}

/// The client that a container belongs to.
fn client(container: &WekaContainer, context: &Context) -> Option<Arc<WekaClient>> {
    let uid = client_of(container.meta())?;
    let kept = context.cluster.clients.store().get(uid)?;
    kept.object.clone().ok()
}

/// A kubelet registers one driver of a name: of two clients on one node the one that was there first has the node pod.
fn is_first_on_node(container: &WekaContainer, node: &str, context: &Context) -> bool {
    let rank = |it: &WekaContainer| {
        let metadata = it.meta();
        (
            metadata.creation_timestamp.as_ref().map(|time| time.0),
            title(it),
        )
    };
    let others = context.cluster.containers_on(node);
    let mut others = others.iter().filter_map(|it| it.object.as_deref().ok());
    others.all(|other| {
        let is_rival = other.uid() != container.uid()
            && other.spec.csi_driver_name == container.spec.csi_driver_name;
        !is_rival || rank(container) < rank(other)
    })
}
