//! Nodes that need other pods: what Kubernetes' own controllers make of the DaemonSets.

use std::collections::BTreeMap;

use devcluster::testing::{ControlPlane, eventually};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;
use stowage_operator::served::Versions;

use crate::generator::Case;

const NAMESPACE: &str = "variants";

/// The DaemonSets of the pods of each node.
fn pods_by_node(plane: &ControlPlane) -> BTreeMap<String, Vec<String>> {
    let pods = plane.kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "json"]);
    let pods: Value = serde_json::from_str(&pods.unwrap()).unwrap();
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for pod in pods["items"].as_array().unwrap() {
        // One that goes is not counted: no kubelet is there to say that it has gone.
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let node = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            .as_str();
        let set = pod["metadata"]["labels"]["csidriver.storage.openshift.io/daemonset"].as_str();
        let pods = found.entry(node.unwrap().to_owned()).or_default();
        pods.push(set.unwrap().to_owned());
    }
    found
}

#[test]
fn every_node_has_the_pods_of_one_template() {
    let plane = ControlPlane::start().unwrap();
    plane.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
    let objects = Case::new("node-variants").objects();
    let wanted = [Kind::ServiceAccount, Kind::DaemonSet];
    let objects = objects
        .iter()
        .filter(|object| wanted.contains(&object.kind));
    let items: Vec<_> = objects
        .map(|object| object.manifest(Versions::NEWEST))
        .collect();
    assert_eq!(
        items.len(),
        4,
        "an account, and a DaemonSet for each kind of node"
    );
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = ["apply", "--validate=false", "-f", "-"];
    plane.kubectl_with_input(&apply, &list.to_string()).unwrap();
    let (selinux, old, linux) = (
        "example.com/selinux",
        "example.com/generation",
        ("kubernetes.io/os", "linux"),
    );
    for (node, labels) in [
        ("plain", vec![linux]),
        ("other-value", vec![linux, (selinux, "false")]),
        ("labelled", vec![linux, (selinux, "true")]),
        ("old", vec![linux, (old, "1")]),
        ("both", vec![linux, (selinux, "true"), (old, "1")]),
        ("without", vec![linux, ("example.com/storage", "none")]),
    ] {
        plane.add_node(node, "variants.example", &labels).unwrap();
    }
    let reaches = |expected: &[(&str, &str)]| {
        let of_node = |(node, set): &(&str, &str)| ((*node).to_owned(), vec![(*set).to_owned()]);
        let expected: BTreeMap<_, _> = expected.iter().map(of_node).collect();
        eventually(&format!("{expected:?}"), || {
            pods_by_node(&plane) == expected
        });
    };
    let mut expected = [
        ("plain", "array-node"),
        ("other-value", "array-node"),
        ("labelled", "array-node-selinux"),
        ("old", "array-node-old"),
        ("both", "array-node-selinux"),
    ];
    reaches(&expected);
    // The label comes and goes: so do the pods.
    plane
        .kubectl(&["label", "node", "plain", &format!("{selinux}=true")])
        .unwrap();
    plane
        .kubectl(&["label", "node", "labelled", &format!("{selinux}-")])
        .unwrap();
    plane
        .kubectl(&[
            "label",
            "node",
            "both",
            "--overwrite",
            &format!("{selinux}=no"),
        ])
        .unwrap();
    (expected[0].1, expected[2].1, expected[4].1) =
        ("array-node-selinux", "array-node", "array-node-old");
    reaches(&expected);
}
