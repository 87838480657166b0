use k8s_openapi::api::core::v1::TopologySelectorLabelRequirement;

use super::*;

const ZONE: &str = "zone";

fn zone(value: &str) -> Segment {
    Segment::from([(ZONE.to_owned(), value.to_owned())])
}

fn three_zones() -> Segments {
    let mut nodes: HashMap<_, _> = ["a", "b", "c"]
        .iter()
        .map(|name| (format!("node-{name}"), Place::At(zone(name))))
        .collect();
    nodes.insert("new".to_owned(), Place::NotRegistered);
    nodes.insert("bare".to_owned(), Place::NoKeys);
    nodes.insert("unlabelled".to_owned(), Place::NoLabel(ZONE.to_owned()));
    let all: Arc<[Segment]> = ["a", "b", "c"].map(zone).into();
    Segments {
        nodes,
        by_keys: BTreeMap::from([(vec![ZONE.to_owned()], all)]),
    }
}

fn request<'a>(
    selected_node: Option<&'a str>,
    allowed: &'a [TopologySelectorTerm],
) -> TopologyRequest<'a> {
    TopologyRequest {
        claim: "data-web-0",
        selected_node,
        allowed,
        strict: false,
        immediate: true,
    }
}

fn allow(values: &[&str]) -> Vec<TopologySelectorTerm> {
    vec![TopologySelectorTerm {
        match_label_expressions: Some(vec![TopologySelectorLabelRequirement {
            key: ZONE.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }]),
    }]
}

fn preferred(topology: &FrozenTopology) -> Vec<String> {
    let requirement = requirement(topology);
    let value = |topology: Topology| topology.segments[ZONE].clone();
    requirement.preferred.into_iter().map(value).collect()
}

#[test]
fn a_pods_node_comes_first_and_the_others_follow_in_a_ring() {
    let chosen = three_zones()
        .choose(request(Some("node-b"), &[]))
        .unwrap()
        .unwrap();
    assert_eq!(chosen.segments.len(), 3);
    assert_eq!(preferred(&chosen), ["b", "c", "a"]);
}

#[test]
fn strict_means_there_and_nowhere_else() {
    let strict = TopologyRequest {
        strict: true,
        ..request(Some("node-b"), &[])
    };
    let chosen = three_zones().choose(strict).unwrap().unwrap();
    assert_eq!(*chosen.segments, [zone("b")]);
}

#[test]
fn a_class_can_allow_less() {
    let allowed = allow(&["c", "b"]);
    let chosen = three_zones()
        .choose(request(Some("node-c"), &allowed))
        .unwrap()
        .unwrap();
    assert_eq!(preferred(&chosen), ["c", "b"]);
    assert_eq!(
        three_zones().choose(request(Some("node-a"), &allowed)),
        Err(TopologyError::NotAllowed("node-a".to_owned()))
    );
}

#[test]
fn a_node_that_cannot_be_used_says_why() {
    for (node, expected) in [
        ("gone", TopologyError::NodeGone("gone".to_owned())),
        ("new", TopologyError::NotRegistered("new".to_owned())),
        ("bare", TopologyError::NoKeys("bare".to_owned())),
        (
            "unlabelled",
            TopologyError::NoLabel("unlabelled".to_owned(), ZONE.to_owned()),
        ),
    ] {
        assert_eq!(
            three_zones().choose(request(Some(node), &[])),
            Err(expected)
        );
    }
}

#[test]
fn replicas_of_a_set_are_spread_and_volumes_of_one_replica_stay_together() {
    let first_of = |claim| {
        let request = TopologyRequest {
            claim,
            ..request(None, &[])
        };
        three_zones().choose(request).unwrap().unwrap().first
    };
    let replicas = ["data-web-0", "data-web-1", "data-web-2"].map(first_of);
    assert_eq!(BTreeSet::from(replicas).len(), 3);
    assert_eq!(first_of("data-web-1"), first_of("logs-web-1"));
}

#[test]
fn without_a_pod_the_cluster_is_told_only_if_asked_for() {
    let quiet = TopologyRequest {
        immediate: false,
        ..request(None, &[])
    };
    assert_eq!(three_zones().choose(quiet), Ok(None));
    let allowed = allow(&["a"]);
    let quiet = TopologyRequest {
        allowed: &allowed,
        ..quiet
    };
    assert_eq!(
        *three_zones().choose(quiet).unwrap().unwrap().segments,
        [zone("a")]
    );
}

#[test]
fn where_no_node_is_known_nothing_is_made_anywhere() {
    let none = Segments::default();
    assert_eq!(none.choose(request(None, &[])), Err(TopologyError::Nowhere));
    let allowed = allow(&["a"]);
    let there = none.choose(request(None, &allowed)).unwrap().unwrap();
    assert_eq!(*there.segments, [zone("a")]);
    let quiet = TopologyRequest {
        immediate: false,
        ..request(None, &[])
    };
    assert_eq!(none.choose(quiet), Ok(None));
}

#[test]
fn allowed_values_are_combined() {
    let mut terms = allow(&["a", "b"]);
    terms[0]
        .match_label_expressions
        .as_mut()
        .unwrap()
        .push(TopologySelectorLabelRequirement {
            key: "rack".to_owned(),
            values: vec!["1".to_owned(), "2".to_owned()],
        });
    terms.extend(allow(&["c"]));
    assert_eq!(flatten(&terms).len(), 5);
}

#[test]
fn the_hash_is_the_one_that_upstream_uses() {
    // From the definition of FNV-1, 32 bits.
    assert_eq!(fnv1(""), 0x811c_9dc5);
    assert_eq!(fnv1("a"), 0x050c_5d7e);
    assert_eq!(fnv1("foobar"), 0x31f0_b262);
}
