//! Where a volume can be used: its node affinity.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, VolumeNodeAffinity};

use crate::intent::Segment;

/// The terms of a node affinity, of which one must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAffinity(Box<[Term]>);

/// Keys, and the values that match.
type Term = Box<[(String, Box<[String]>)]>;

impl NodeAffinity {
    /// `None`: everywhere.
    pub(crate) fn read(affinity: VolumeNodeAffinity) -> Option<Self> {
        let terms = affinity.required?.node_selector_terms;
        Some(Self(terms.into_iter().map(read_term).collect()))
    }

    /// Whether nodes of this segment match.
    pub(crate) fn includes(&self, segment: &Segment) -> bool {
        let matches = |(key, values): &(String, Box<[String]>)| {
            segment.get(key).is_some_and(|own| values.contains(own))
        };
        self.0.iter().any(|term| term.iter().all(matches))
    }
}

fn read_term(term: NodeSelectorTerm) -> Term {
    let expressions = term.match_expressions.unwrap_or_default();
    expressions.into_iter().map(requirement).collect()
}

/// Drivers write nothing but `In`; whatever else there is, no value of ours meets it.
fn requirement(requirement: NodeSelectorRequirement) -> (String, Box<[String]>) {
    let values = requirement.values.filter(|_| requirement.operator == "In");
    (requirement.key, values.unwrap_or_default().into())
}
