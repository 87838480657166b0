//! Which nodes an update begins with. Nothing here does anything.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::DriverPod;

/// A driver pod, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) node: String,
    pub(super) pod: DriverPod,
}

/// The driver pod of each node. Where an old pod goes while the new one is there already, the new one counts.
pub(super) fn by_node(pods: &[Placed]) -> BTreeMap<&str, &DriverPod> {
    let mut nodes = BTreeMap::new();
    for placed in pods {
        let known = nodes.entry(placed.node.as_str()).or_insert(&placed.pod);
        if **known == DriverPod::Missing {
            *known = &placed.pod;
        }
    }
    nodes
}

/// Which nodes to begin with, and how many.
pub(super) struct Choice<'a> {
    /// Outdated nodes, in order: those first where the driver does not serve anyway.
    pub(super) nodes: Vec<Candidate<'a>>,
    /// Nodes whose driver pod does not serve, and that are not under way: whatever the reason, the next node would only make it
    /// worse.
    without: Vec<&'a str>,
    /// How many nodes have no driver pod at all.
    absent: usize,
    under_way: usize,
    limit: usize,
}

/// A node that may be begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub(super) name: &'a str,
    serves: bool,
}

impl<'a> Choice<'a> {
    /// `busy` are under way already; nobody misses the driver on a node that is `lost`. There are `total` nodes.
    pub(super) fn of(
        nodes: &BTreeMap<&'a str, &DriverPod>,
        busy: &[String],
        lost: &BTreeSet<String>,
        total: usize,
        limit: usize,
    ) -> Self {
        let is_free = |name: &str| !busy.iter().any(|it| it == name);
        let free = nodes.iter().filter(|(name, _)| is_free(name));
        let outdated = free
            .clone()
            .filter(|(_, pod)| matches!(pod, DriverPod::Outdated { .. }));
        let candidate = |(name, pod): (&&'a str, &&DriverPod)| Candidate {
            name,
            serves: pod.serves(),
        };
        let mut candidates: Vec<_> = outdated.map(candidate).collect();
        candidates.sort_by_key(|it| (it.serves, it.name));
        let without = free.filter(|(name, pod)| !pod.serves() && !lost.contains(**name));
        let known = nodes.keys().copied();
        let known: BTreeSet<_> = known.chain(busy.iter().map(String::as_str)).collect();
        Self {
            nodes: candidates,
            without: without.map(|(name, _)| *name).collect(),
            absent: total.saturating_sub(known.len()),
            under_way: busy.len(),
            limit,
        }
    }

    /// Whether a node may be begun with: one that is without the driver already costs nobody anything.
    pub(super) fn admits(&self, node: Candidate<'_>) -> bool {
        let without = if node.serves { self.without() } else { 0 };
        self.under_way + without < self.limit
    }

    /// How many nodes are without the driver, and not because they are under way.
    pub(super) fn without(&self) -> usize {
        self.without.len() + self.absent
    }

    /// It is begun with a node.
    pub(super) fn begin(&mut self, node: Candidate<'_>) {
        self.under_way += 1;
        self.without.retain(|it| *it != node.name);
    }
}

/// Nodes whose driver pod does not serve: whether they are there at all is worth a look.
pub(super) fn not_serving<'a>(nodes: &BTreeMap<&'a str, &DriverPod>) -> Vec<&'a str> {
    let nodes = nodes.iter().filter(|(_, pod)| !pod.serves());
    nodes.map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::decide::tests::outdated;
    use super::*;

    fn broken() -> DriverPod {
        match outdated() {
            DriverPod::Outdated {
                name,
                uid,
                tells_at,
                ..
            } => DriverPod::Outdated {
                name,
                uid,
                tells_at,
                is_ready: false,
            },
            other => other,
        }
    }

    fn placed(node: &str, pod: DriverPod) -> Placed {
        Placed {
            node: node.to_owned(),
            pod,
        }
    }

    /// The nodes that are begun with where all of them are ready.
    fn begun(pods: &[Placed], busy: &[&str], lost: &[&str], limit: usize) -> String {
        let busy: Vec<_> = busy.iter().map(ToString::to_string).collect();
        let lost = lost.iter().map(ToString::to_string).collect();
        let nodes = by_node(pods);
        let mut choice = Choice::of(&nodes, &busy, &lost, nodes.len(), limit);
        let mut begun = Vec::new();
        for node in choice.nodes.clone() {
            if choice.admits(node) {
                choice.begin(node);
                begun.push(node.name);
            }
        }
        begun.join(" ")
    }

    #[test]
    fn as_many_nodes_are_begun_with_as_the_limit_admits() {
        let pods = [
            placed("d", outdated()),
            placed("b", outdated()),
            placed("a", DriverPod::Current { is_ready: true }),
            placed("c", outdated()),
        ];
        assert_eq!(begun(&pods, &[], &[], 1), "b");
        assert_eq!(begun(&pods, &["b"], &[], 1), "");
        assert_eq!(begun(&pods, &["b"], &[], 2), "c");
        assert_eq!(begun(&pods, &[], &[], 2), "b c");
        assert_eq!(begun(&pods, &[], &[], 9), "b c d");
    }

    #[test]
    fn a_node_without_its_driver_counts_whatever_the_reason() {
        let with = |pod: DriverPod| {
            [
                placed("a", outdated()),
                placed("b", outdated()),
                placed("z", pod),
            ]
        };
        // A new pod that does not get ready, or one that is not there: the next node would only make it worse.
        for pod in [DriverPod::Current { is_ready: false }, DriverPod::Missing] {
            assert_eq!(begun(&with(pod.clone()), &[], &[], 1), "");
            assert_eq!(begun(&with(pod.clone()), &[], &[], 2), "a");
            assert_eq!(begun(&with(pod), &[], &["z"], 1), "a", "its node is lost");
        }
        // One of an update before: it is mended first, and costs nobody anything.
        assert_eq!(begun(&with(broken()), &[], &[], 1), "z");
        assert_eq!(begun(&with(broken()), &[], &[], 2), "z a");
        assert_eq!(begun(&with(broken()), &["a"], &[], 1), "");
        assert_eq!(begun(&with(broken()), &["a"], &[], 2), "z");
        // One without any pod counts, unless it is under way.
        let nodes = [placed("a", outdated())];
        let nodes = by_node(&nodes);
        let (nobody, busy) = (BTreeSet::new(), ["z".to_owned()]);
        let candidate = |choice: &Choice<'_>| choice.admits(choice.nodes[0]);
        assert!(!candidate(&Choice::of(&nodes, &[], &nobody, 2, 1)));
        assert!(candidate(&Choice::of(&nodes, &busy, &nobody, 2, 2)));
        // The pod that goes is replaced by one that serves.
        let replaced = [
            placed("a", outdated()),
            placed("z", DriverPod::Missing),
            placed("z", DriverPod::Current { is_ready: true }),
        ];
        assert_eq!(begun(&replaced, &[], &[], 1), "a");
    }
}
