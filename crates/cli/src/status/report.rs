//! What the facts mean. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::ResourceExt;
use serde::Serialize;

use super::facts::Facts;

/// The state of a cluster's CSI drivers; this is also the JSON that `--output json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub server_version: String,
    pub drivers: Vec<Driver>,
    pub nodes: Vec<NodeState>,
}

/// One driver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    pub name: String,
    /// Whether there is a CSIDriver object; without one Kubernetes assumes the defaults shown.
    pub csi_driver_object: bool,
    pub attach_required: bool,
    pub modes: Vec<String>,
    pub storage_classes: Vec<String>,
    pub persistent_volumes: usize,
    /// Nodes whose kubelet knows the driver.
    pub registered_on: Vec<String>,
}

/// One node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    pub name: String,
    pub ready: Ready,
    /// Drivers that the node's kubelet knows.
    pub drivers: Vec<String>,
}

/// What the cluster thinks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ready {
    Yes,
    No,
    /// The kubelet has not reported for a while, or never has.
    Unknown,
    /// There is a CSINode but no Node: the node was removed.
    Gone,
}

/// A driver counts as soon as anything in the cluster says that it is one: a CSIDriver, a node that
/// registered it, or a volume that belongs to it (left behind by a driver that was removed).
pub fn build(facts: &Facts) -> Report {
    let mut registered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for csi_node in &facts.csi_nodes {
        let drivers = csi_node
            .spec
            .drivers
            .iter()
            .map(|driver| driver.name.clone());
        registered.insert(csi_node.name_any(), drivers.collect());
    }
    let objects: BTreeMap<String, &CSIDriver> = facts
        .csi_drivers
        .iter()
        .map(|driver| (driver.name_any(), driver))
        .collect();

    let mut names: BTreeSet<&String> = objects.keys().collect();
    names.extend(registered.values().flatten());
    names.extend(facts.volumes.keys());
    let drivers = names
        .into_iter()
        .map(|name| driver(name, objects.get(name).copied(), &registered, facts))
        .collect();

    Report {
        server_version: facts.server.clone(),
        drivers,
        nodes: nodes(&facts.nodes, registered),
    }
}

fn driver(
    name: &str,
    object: Option<&CSIDriver>,
    registered: &BTreeMap<String, BTreeSet<String>>,
    facts: &Facts,
) -> Driver {
    let spec = object.map(|object| &object.spec);
    let mut storage_classes: Vec<_> = facts
        .storage_classes
        .iter()
        .filter(|class| class.provisioner == name)
        .map(ResourceExt::name_any)
        .collect();
    storage_classes.sort();
    Driver {
        name: name.to_owned(),
        csi_driver_object: object.is_some(),
        attach_required: spec.and_then(|spec| spec.attach_required).unwrap_or(true),
        modes: spec
            .and_then(|spec| spec.volume_lifecycle_modes.clone())
            .filter(|modes| !modes.is_empty())
            .unwrap_or_else(|| vec!["Persistent".to_owned()]),
        storage_classes,
        persistent_volumes: facts.volumes.get(name).copied().unwrap_or_default(),
        registered_on: registered
            .iter()
            .filter(|(_, drivers)| drivers.contains(name))
            .map(|(node, _)| node.clone())
            .collect(),
    }
}

fn nodes(nodes: &[Node], mut registered: BTreeMap<String, BTreeSet<String>>) -> Vec<NodeState> {
    let mut states: Vec<_> = nodes
        .iter()
        .map(|node| NodeState {
            name: node.name_any(),
            ready: ready(node),
            drivers: registered
                .remove(&node.name_any())
                .unwrap_or_default()
                .into_iter()
                .collect(),
        })
        .collect();
    states.extend(registered.into_iter().map(|(name, drivers)| NodeState {
        name,
        ready: Ready::Gone,
        drivers: drivers.into_iter().collect(),
    }));
    states.sort_by(|a, b| a.name.cmp(&b.name));
    states
}

fn ready(node: &Node) -> Ready {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    match ready.map(|condition| condition.status.as_str()) {
        Some("True") => Ready::Yes,
        Some("False") => Ready::No,
        _ => Ready::Unknown,
    }
}
