//! Where a volume can be used.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, VolumeNodeAffinity};

use crate::intent::Segment;

/// The places of a volume, each by all of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places(Box<[Place]>);

/// Keys and the values that will do.
type Place = Box<[(String, Box<[String]>)]>;

impl Places {
    /// `None`: everywhere.
    pub(crate) fn read(affinity: VolumeNodeAffinity) -> Option<Self> {
        let terms = affinity.required?.node_selector_terms;
        Some(Self(terms.into_iter().map(place).collect()))
    }

    /// Whether one of them is `segment`, or around it.
    pub(crate) fn include(&self, segment: &Segment) -> bool {
        let will_do = |(key, values): &(String, Box<[String]>)| {
            segment.get(key).is_some_and(|own| values.contains(own))
        };
        self.0.iter().any(|place| place.iter().all(will_do))
    }
}

fn place(term: NodeSelectorTerm) -> Place {
    let expressions = term.match_expressions.unwrap_or_default();
    expressions.into_iter().map(requirement).collect()
}

/// Drivers write nothing but `In`; whatever else there is, no value of ours meets it.
fn requirement(requirement: NodeSelectorRequirement) -> (String, Box<[String]>) {
    let values = requirement.values.filter(|_| requirement.operator == "In");
    (requirement.key, values.unwrap_or_default().into())
}
