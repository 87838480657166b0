//! Where volumes are: on one node, which is what the topology says.

use stowage_csi::proto::csi::{Topology, TopologyRequirement};

use crate::args::Config;
use crate::error::Error;
use crate::id::NodeId;

/// The Go reference driver's key, so that its manifests and labels fit.
pub(crate) const KEY: &str = "topology.hostpath.csi/node";

fn of_node(node: &NodeId) -> Topology {
    Topology {
        segments: [(KEY.to_owned(), node.to_string())].into(),
    }
}

/// Where this node is.
pub(crate) fn of_this_node(config: &Config) -> Option<Topology> {
    config.topology.then(|| of_node(&config.node))
}

/// From where something on `node` can be reached; empty is everywhere.
pub(crate) fn of_volume(config: &Config, node: &NodeId) -> Vec<Topology> {
    if config.topology && !config.shared {
        vec![of_node(node)]
    } else {
        Vec::new()
    }
}

/// Whether something on this node can be reached from there.
pub(crate) fn includes(config: &Config, place: &Topology) -> bool {
    !config.topology
        || config.shared
        || place.segments.get(KEY).map(String::as_str) == Some(config.node.as_str())
}

/// Whether a volume on this node is what the caller wants. What it prefers does not matter: there is no choice.
pub(crate) fn check(config: &Config, wanted: Option<&TopologyRequirement>) -> Result<(), Error> {
    let Some(wanted) = wanted else { return Ok(()) };
    let places = if wanted.requisite.is_empty() {
        &wanted.preferred
    } else {
        &wanted.requisite
    };
    if places.is_empty() || places.iter().any(|place| includes(config, place)) {
        Ok(())
    } else {
        Err(Error::Unreachable(config.node.clone()))
    }
}
