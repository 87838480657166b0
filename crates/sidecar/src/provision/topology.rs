//! Where a volume may be made: the segments of the cluster as the driver tells them apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use parking_lot::Mutex;
use stowage_csi::proto::csi::{Topology, TopologyRequirement};
use stowage_kubernetes::store::{Cached, Change};
use stowage_kubernetes::watch::Watched;

use super::scope::Scope;
use crate::cluster::Cluster;
use crate::intent::{FrozenTopology, Segment};
use crate::role::Context;

/// From where volumes of this driver can be used.
#[derive(Clone)]
pub(crate) enum Accessibility {
    /// From everywhere: the driver has no topology.
    Everywhere,
    /// From parts of the cluster, told apart by labels of nodes.
    Segments(Topologies),
    /// From this node, with a controller on every node; `None` where its driver has no topology.
    OwnNode(Option<Segment>),
}

impl Accessibility {
    pub(crate) fn of(context: &Context, scope: &Scope) -> Self {
        let can = context.driver.capabilities();
        match scope {
            Scope::Node(segment) => {
                let topology = can.volume_accessibility_constraints();
                Self::OwnNode(segment.clone().filter(|_| topology))
            }
            Scope::Cluster if can.volume_accessibility_constraints() => {
                Self::Segments(Topologies::new(context.cluster.clone()))
            }
            Scope::Cluster => Self::Everywhere,
        }
    }
}

/// The segments of the cluster, worked out anew only after a node changed.
#[derive(Clone)]
pub(crate) struct Topologies {
    cluster: Cluster,
    latest: Arc<Mutex<Option<Arc<Segments>>>>,
}

/// The segments of all nodes with this driver.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    /// All nodes of the cluster.
    nodes: HashMap<String, Place>,
    /// Nodes may report different keys while a driver is being upgraded: a volume is asked for in one set of keys.
    by_keys: BTreeMap<Vec<String>, Arc<[Segment]>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The driver is not registered on this node, or not yet.
    NotRegistered,
    /// The driver on this node knows no topology.
    NoKeys,
    /// The node lacks the label of this key.
    NoLabel(String),
    At(Segment),
}

/// Why no volume can be asked for now.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TopologyError {
    /// The scheduler must choose another node.
    #[error("node `{0}`, which the scheduler chose, is gone: the scheduler chooses again")]
    NodeGone(String),
    #[error(
        "the driver is not registered on node `{0}`, which the scheduler chose: see that its node plugin runs there"
    )]
    NotRegistered(String),
    #[error(
        "the driver on node `{0}` has reported no topology keys: see that its node plugin is registered"
    )]
    NoKeys(String),
    #[error(
        "node `{0}` has no label `{1}`, which is a topology key of the driver there: add it, or see that its node plugin is registered"
    )]
    NoLabel(String, String),
    #[error(
        "node `{0}` is outside of the allowedTopologies of the storage class: let the pod run elsewhere, or use another class"
    )]
    NotAllowed(String),
    /// In upstream's words, and then in ours.
    #[error(
        "no available topology found: the driver is not registered on any node, or the nodes lack the labels of its topology keys; see that its node plugin runs"
    )]
    Nowhere,
}

impl TopologyError {
    /// Whether a node that comes or changes may help.
    pub(crate) fn waits_for_nodes(&self) -> bool {
        match self {
            Self::NotRegistered(_) | Self::NoKeys(_) | Self::NoLabel(..) | Self::Nowhere => true,
            Self::NodeGone(_) | Self::NotAllowed(_) => false,
        }
    }
}

/// What a claim asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopologyRequest<'a> {
    pub(crate) claim: &'a str,
    pub(crate) selected_node: Option<&'a str>,
    pub(crate) allowed: &'a [TopologySelectorTerm],
    pub(crate) strict: bool,
    /// Tell the driver of the whole cluster where no pod waits.
    pub(crate) immediate: bool,
}

impl Topologies {
    pub(crate) fn new(cluster: Cluster) -> Self {
        let latest = Arc::<Mutex<Option<Arc<Segments>>>>::default();
        outdate_with(&cluster.nodes, &latest);
        outdate_with(&cluster.csi_nodes, &latest);
        Self { cluster, latest }
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        let mut latest = self.latest.lock();
        Arc::clone(latest.get_or_insert_with(|| Arc::new(Segments::of(&self.cluster))))
    }
}

/// Forgets the segments when an object of this kind changes in what we read of it. Nodes are written many times a
/// minute for other reasons.
fn outdate_with<T: Cached + PartialEq>(
    kind: &Watched<T>,
    latest: &Arc<Mutex<Option<Arc<Segments>>>>,
) {
    let latest = Arc::clone(latest);
    kind.listen(move |change| match change {
        Change::Set {
            old: Some(old),
            new,
        } if old == new => {}
        _ => *latest.lock() = None,
    });
}

impl Segments {
    fn of(cluster: &Cluster) -> Self {
        let mut nodes = HashMap::new();
        let mut by_keys = BTreeMap::<Vec<String>, BTreeSet<Segment>>::new();
        for node in cluster.nodes.store().all() {
            let driver = cluster.csi_nodes.store().get(&node.name);
            let place = driver.map_or(Place::NotRegistered, |driver| {
                place(&driver.topology_keys, &node.labels)
            });
            if let Place::At(segment) = &place {
                let keys = segment.keys().cloned().collect();
                by_keys.entry(keys).or_default().insert(segment.clone());
            }
            nodes.insert(node.name.clone(), place);
        }
        let by_keys = by_keys
            .into_iter()
            .map(|(keys, segments)| (keys, segments.into_iter().collect()))
            .collect();
        Self { nodes, by_keys }
    }

    /// All segments, each once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Segment> {
        self.by_keys.values().flat_map(|segments| segments.iter())
    }

    /// Where to make the volume. `None`: anywhere.
    pub(crate) fn choose(
        &self,
        request: TopologyRequest<'_>,
    ) -> Result<Option<FrozenTopology>, TopologyError> {
        match request.selected_node {
            Some(node) => self.near(node, request).map(Some),
            None => self.spread(request),
        }
    }

    /// Near the pod that waits for it.
    fn near(
        &self,
        node: &str,
        request: TopologyRequest<'_>,
    ) -> Result<FrozenTopology, TopologyError> {
        let own = match self.nodes.get(node) {
            None => return Err(TopologyError::NodeGone(node.to_owned())),
            Some(Place::NotRegistered) => {
                return Err(TopologyError::NotRegistered(node.to_owned()));
            }
            Some(Place::NoKeys) => return Err(TopologyError::NoKeys(node.to_owned())),
            Some(Place::NoLabel(key)) => {
                return Err(TopologyError::NoLabel(node.to_owned(), key.clone()));
            }
            Some(Place::At(segment)) => segment,
        };
        let allowed = flatten(request.allowed);
        let inside = |segment: &Segment| {
            segment
                .iter()
                .all(|(key, value)| own.get(key) == Some(value))
        };
        let first_allowed = allowed.iter().position(inside);
        if !allowed.is_empty() && first_allowed.is_none() {
            return Err(TopologyError::NotAllowed(node.to_owned()));
        }
        if request.strict {
            return Ok(FrozenTopology {
                segments: Arc::new([own.clone()]),
                first: 0,
            });
        }
        if let Some(first) = first_allowed {
            return Ok(FrozenTopology {
                segments: allowed.into(),
                first,
            });
        }
        let keys: Vec<String> = own.keys().cloned().collect();
        let segments = self.by_keys.get(&keys).cloned().unwrap_or_default();
        let first = segments.binary_search(own).unwrap_or(0);
        Ok(FrozenTopology { segments, first })
    }

    /// Nobody waits for it: the replicas of a StatefulSet are spread over the segments.
    fn spread(
        &self,
        request: TopologyRequest<'_>,
    ) -> Result<Option<FrozenTopology>, TopologyError> {
        let allowed = flatten(request.allowed);
        let segments: Arc<[Segment]> = if !allowed.is_empty() {
            allowed.into()
        } else if request.immediate {
            let mut sets = self.by_keys.values();
            // Made anywhere, it might be where no node can ever use it.
            let first = sets.next().ok_or(TopologyError::Nowhere)?;
            let largest = sets.fold(
                first,
                |best, set| if set.len() > best.len() { set } else { best },
            );
            Arc::clone(largest)
        } else {
            return Ok(None);
        };
        let first = spread_index(request.claim) as usize % segments.len();
        Ok(Some(FrozenTopology { segments, first }))
    }
}

fn place(keys: &[String], labels: &BTreeMap<String, String>) -> Place {
    if keys.is_empty() {
        return Place::NoKeys;
    }
    let mut segment = Segment::new();
    for key in keys {
        match labels.get(key) {
            Some(value) => segment.insert(key.clone(), value.clone()),
            None => return Place::NoLabel(key.clone()),
        };
    }
    Place::At(segment)
}

/// All combinations of the values that a class allows, in order and each once.
fn flatten(terms: &[TopologySelectorTerm]) -> Vec<Segment> {
    let mut all = BTreeSet::new();
    for term in terms {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        let mut segments = vec![Segment::new()];
        for expression in expressions {
            let with = |segment: &Segment, value: &String| {
                let mut segment = segment.clone();
                segment.insert(expression.key.clone(), value.clone());
                segment
            };
            segments = segments
                .iter()
                .flat_map(|segment| expression.values.iter().map(|value| with(segment, value)))
                .collect();
        }
        all.extend(segments.into_iter().filter(|segment| !segment.is_empty()));
    }
    all.into_iter().collect()
}

/// Where to begin in the ring of segments. Claims of a StatefulSet are called `<claim>-<set>-<ordinal>`: the set
/// decides where to begin and the ordinal moves on from there, so that the volumes of one replica stay together.
fn spread_index(claim: &str) -> u32 {
    let (name, ordinal) = match claim.rsplit_once('-') {
        Some((name, ordinal)) => match ordinal.parse::<u32>() {
            Ok(ordinal) => (name, ordinal),
            Err(_) => (claim, 0),
        },
        None => (claim, 0),
    };
    let set = name.rsplit_once('-').map_or(name, |(_, set)| set);
    fnv1(set).wrapping_add(ordinal)
}

/// FNV-1 with 32 bits: small, and what upstream spreads by.
fn fnv1(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    })
}

/// For the driver.
pub(crate) fn requirement(topology: &FrozenTopology) -> TopologyRequirement {
    let message = |segment: &Segment| Topology {
        segments: segment.clone(),
    };
    let (before, after) = topology
        .segments
        .split_at(topology.first.min(topology.segments.len()));
    TopologyRequirement {
        requisite: topology.segments.iter().map(message).collect(),
        preferred: after.iter().chain(before).map(message).collect(),
    }
}

#[cfg(test)]
mod tests;
