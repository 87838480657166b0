//! Nodes: what this driver said of each, and their labels.

use std::collections::BTreeMap;

use stowage_kubernetes::store::Cached;

use super::wire::{WireCsiNode, WireNode};

/// A node on which this driver is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNode {
    pub(crate) name: String,
    /// The node's name on the storage side.
    pub(crate) node_id: String,
    pub(crate) topology_keys: Vec<String>,
}

/// The labels of a node: the values of its topology keys are among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabels {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl CsiNode {
    /// Reads a CSINode. `None`: the driver is not registered there.
    pub(crate) fn read(wire: WireCsiNode, driver: &str) -> Option<Self> {
        let name = wire.metadata.name?;
        let mut drivers = wire.spec.drivers.unwrap_or_default().into_iter();
        let registered = drivers.find(|registered| registered.name == driver)?;
        Some(Self {
            name,
            node_id: registered.node_id,
            topology_keys: registered.topology_keys.unwrap_or_default(),
        })
    }
}

impl NodeLabels {
    /// Reads a Node.
    pub(crate) fn read(wire: WireNode) -> Option<Self> {
        Some(Self {
            name: wire.metadata.name?,
            labels: wire.metadata.labels.unwrap_or_default(),
        })
    }
}

impl Cached for CsiNode {
    fn key(&self) -> &str {
        &self.name
    }
}

impl Cached for NodeLabels {
    fn key(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The server writes it so, and one such node must not end the watch of all.
    #[test]
    fn a_node_whose_drivers_are_null_has_none() {
        let object = json!({"metadata": {"name": "n"}, "spec": {"drivers": null}});
        let wire: WireCsiNode = serde_json::from_value(object).unwrap();
        assert_eq!(CsiNode::read(wire, "csi"), None);
    }
}
