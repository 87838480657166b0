//! A node that is powered off or cut off becomes NotReady and comes back. On a cluster of its own, so that no other
//! test loses its pods. `node stop`, `node cut` and `node start` of docs/guides/dev-cluster.md.

use stowage_tests::{OwnCluster, eventually, said};

use super::vpsa_lost;

const CLUSTER: &str = "test-nodes";

fn is_ready(cluster: &OwnCluster, node: &str) -> Option<bool> {
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let output = cluster.try_run(&["kubectl", "get", "node", node, "-o", path]);
    output
        .status
        .success()
        .then(|| output.stdout.as_slice() == b"True")
}

#[test]
fn a_lost_node_is_not_ready_and_comes_back_with_its_pods() {
    let cluster = OwnCluster::named(CLUSTER);
    cluster.run(&["up", "--nodes", "2"]);
    let sleeper = r#"{"spec":{"nodeName":"node-b","terminationGracePeriodSeconds":0}}"#;
    let image = "--image=busybox";
    cluster.run(&[
        "kubectl",
        "run",
        "sleeper",
        image,
        "--overrides",
        sleeper,
        "--",
        "sleep",
        "1000000",
    ]);
    let pod_answers = || {
        let output = cluster.try_run(&["kubectl", "exec", "sleeper", "--", "echo", "here"]);
        (output.stdout == b"here\n").then_some(())
    };
    eventually("the pod runs", pod_answers);

    for how in ["stop", "cut"] {
        cluster.run(&["node", how, "node-b"]);
        eventually(&format!("node-b is lost by {how}"), || {
            is_ready(&cluster, "node-b").filter(|ready| !ready)
        });
        assert_eq!(
            is_ready(&cluster, "node-a"),
            Some(true),
            "node-a is not disturbed by {how}"
        );
        cluster.run(&["node", "start", "node-b"]);
        eventually(&format!("node-b is back after {how}"), || {
            is_ready(&cluster, "node-b").filter(|ready| *ready)
        });
        eventually("its pod answers again", pod_answers);
    }

    vpsa_lost::a_pod_moves_from_a_node_that_is_lost_once_that_is_fenced(&cluster, CLUSTER);

    let unknown = cluster.try_run(&["node", "stop", "node-z"]);
    assert!(!unknown.status.success());
    assert!(
        said(&unknown).contains("the nodes are node-a, node-b"),
        "{}",
        said(&unknown)
    );
}
