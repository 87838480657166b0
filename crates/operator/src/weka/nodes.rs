//! Which nodes get a client. Pure.
//!
//! As with a DaemonSet: a taint `NoSchedule` that is not tolerated keeps a client from starting, `NoExecute` makes it go.
//! Taints that Kubernetes sets by itself when a node is unwell or cordoned do neither: a client that goes then would take
//! away what is mounted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use stowage_api::weka::WekaClientSpec;

use crate::tolerations::tolerates;

/// Taints with this prefix are those of Kubernetes.
const OF_KUBERNETES: &str = "node.kubernetes.io/";

/// What matters of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// How a node stands to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// A client may start and stay.
    Starts,
    /// One that is there stays.
    Stays,
    /// One that is there goes.
    Goes,
}

/// How a node stands to a client.
pub fn fit(spec: &WekaClientSpec, node: &Node) -> Fit {
    if !is_selected(spec, node) {
        return Fit::Goes;
    }
    let bare = not_tolerated(spec, node);
    let has = |effect: &str| bare.iter().any(|taint| taint.effect == effect);
    match () {
        () if has("NoExecute") => Fit::Goes,
        () if has("NoSchedule") => Fit::Stays,
        () => Fit::Starts,
    }
}

/// Why no node has a client, and what to do, where none fits.
pub fn why_none(spec: &WekaClientSpec, nodes: &[&Node]) -> String {
    let labels = spec.node_selector.iter().flatten();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let selector = format!("`spec.nodeSelector` (`{}`)", labels.join(","));
    let mut selected = nodes.iter().filter(|node| is_selected(spec, node));
    let taints = bare_taints(spec, selected.clone().copied());
    match (selected.next(), labels.is_empty()) {
        (None, true) => "the cluster has no nodes: clients start when nodes join".to_owned(),
        (None, false) => {
            let labels = labels.join(" ");
            format!(
                "no node matches {selector}: label the nodes that are to have a client, with `kubectl label node NAME \
                 {labels}`, or change the selector"
            )
        }
        (Some(_), has_no_selector) => {
            let which = if has_no_selector {
                "every node".to_owned()
            } else {
                format!("every node that matches {selector}")
            };
            format!(
                "{which} has a taint that the client does not tolerate ({taints}): add the key of the taint to \
                 `spec.tolerations`, or remove the taint from the nodes"
            )
        }
    }
}

/// The taints that keep a client from these nodes, each once.
fn bare_taints<'a>(spec: &WekaClientSpec, nodes: impl Iterator<Item = &'a Node>) -> String {
    let taints = nodes.flat_map(|node| not_tolerated(spec, node));
    let taints = taints.filter(|taint| taint.effect != "PreferNoSchedule");
    let shown: BTreeSet<_> = taints
        .map(|taint| format!("`{}:{}`", taint.key, taint.effect))
        .collect();
    Vec::from_iter(shown).join(", ")
}

/// Whether a node has all labels of the selector.
fn is_selected(spec: &WekaClientSpec, node: &Node) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    selector.all(|(key, value)| node.labels.get(key) == Some(value))
}

/// The taints of a node that somebody set and that a client does not tolerate.
fn not_tolerated<'a>(spec: &WekaClientSpec, node: &'a Node) -> Vec<&'a Taint> {
    let tolerations = spec.all_tolerations();
    let taints = node.taints.iter();
    taints
        .filter(|taint| !taint.key.starts_with(OF_KUBERNETES))
        .filter(|taint| !tolerations.iter().any(|it| tolerates(it, taint)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn fit_of(spec: Value, labels: &[(&str, &str)], taints: Value) -> Fit {
        let mut all = json!({"image": "i:1.2.3"});
        all.as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let spec = serde_json::from_value(all).unwrap();
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let node = Node {
            name: "n".to_owned(),
            labels: labels.collect(),
            taints: serde_json::from_value(taints).unwrap(),
            ..Node::default()
        };
        fit(&spec, &node)
    }

    #[test]
    fn nodes_match_by_all_labels_of_the_selector() {
        let selector = json!({"nodeSelector": {"a": "1", "b": ""}});
        for (labels, expected) in [
            (&[][..], Fit::Goes),
            (&[("a", "1")], Fit::Goes),
            (&[("a", "2"), ("b", "")], Fit::Goes),
            (&[("a", "1"), ("b", ""), ("c", "3")], Fit::Starts),
        ] {
            assert_eq!(
                fit_of(selector.clone(), labels, json!([])),
                expected,
                "{labels:?}"
            );
        }
        assert_eq!(fit_of(json!({}), &[], json!([])), Fit::Starts);
    }

    #[test]
    fn taints_count_as_for_a_daemon_set() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "value": "v", "effect": effect}]);
        let raw = |toleration: Value| json!({"rawTolerations": [toleration]});
        for (spec, taints, expected) in [
            (json!({}), taint("k", "NoSchedule"), Fit::Stays),
            (json!({}), taint("k", "NoExecute"), Fit::Goes),
            (json!({}), taint("k", "PreferNoSchedule"), Fit::Starts),
            (
                json!({}),
                taint("node.kubernetes.io/unreachable", "NoExecute"),
                Fit::Starts,
            ),
            (
                json!({}),
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                Fit::Starts,
            ),
            (
                json!({"tolerations": ["k"]}),
                taint("k", "NoExecute"),
                Fit::Starts,
            ),
            (
                json!({"tolerations": ["other"]}),
                taint("k", "NoExecute"),
                Fit::Goes,
            ),
            (
                raw(json!({"operator": "Exists"})),
                taint("k", "NoExecute"),
                Fit::Starts,
            ),
            (
                raw(json!({"key": "k", "value": "v"})),
                taint("k", "NoExecute"),
                Fit::Starts,
            ),
            (
                raw(json!({"key": "k", "value": "w"})),
                taint("k", "NoExecute"),
                Fit::Goes,
            ),
            (
                raw(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
                taint("k", "NoExecute"),
                Fit::Goes,
            ),
        ] {
            assert_eq!(
                fit_of(spec.clone(), &[], taints.clone()),
                expected,
                "{spec} {taints}"
            );
        }
    }

    #[test]
    fn a_client_that_no_node_fits_says_why_and_what_to_do() {
        let node = |labels: Value, taints: Value| Node {
            labels: serde_json::from_value(labels).unwrap(),
            taints: serde_json::from_value(taints).unwrap(),
            ..Node::default()
        };
        let nodes = [
            node(json!({"a": "1"}), json!([])),
            node(
                json!({"a": "2"}),
                json!([{"key": "k", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}]),
            ),
            node(
                json!({"a": "2"}),
                json!([{"key": "k", "effect": "NoExecute"}]),
            ),
        ];
        let nodes: Vec<_> = nodes.iter().collect();
        let why = |spec: Value, nodes: &[&Node]| {
            let mut all = json!({"image": "i:1.2.3"});
            all["nodeSelector"] = spec;
            why_none(&serde_json::from_value(all).unwrap(), nodes)
        };
        assert_eq!(
            why(json!({"a": "3", "b": ""}), &nodes),
            "no node matches `spec.nodeSelector` (`a=3,b=`): label the nodes that are to have a client, with `kubectl label \
             node NAME a=3 b=`, or change the selector"
        );
        assert_eq!(
            why(json!({"a": "2"}), &nodes),
            "every node that matches `spec.nodeSelector` (`a=2`) has a taint that the client does not tolerate \
             (`k:NoExecute`, `k:NoSchedule`): add the key of the taint to `spec.tolerations`, or remove the taint from the \
             nodes"
        );
        let tainted = why(json!({}), &nodes[1..]);
        assert!(tainted.starts_with("every node has a taint"), "{tainted}");
        let empty = why(json!({}), &[]);
        assert_eq!(
            empty,
            "the cluster has no nodes: clients start when nodes join"
        );
    }
}
