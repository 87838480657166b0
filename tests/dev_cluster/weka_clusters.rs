//! Nodes that are clients of two Weka clusters at once, and nodes of different clusters.

use std::path::PathBuf;

use serde_json::Value;
use stowage_tests::{cluster, eventually, get, pod_in_phase};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Driver};
use super::weka_pair::{NODES, pair, place};
use super::weka_volumes::{directory, remove, wait_for_event};

#[test]
fn one_pod_writes_to_two_clusters_and_a_dead_one_holds_up_nobody_on_the_other() {
    let mut pair = pair();
    let pair = &mut pair;
    pair.everywhere();
    let namespace = cluster().namespace("weka-two").unwrap();
    let classes = pair.claims(&namespace);
    let manifest = "\
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  nodeName: node-b
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: east, persistentVolumeClaim: {claimName: weka-east}}
  - {name: west, persistentVolumeClaim: {claimName: weka-west}}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo > /east/from-east && echo > /west/from-west']
    volumeMounts: [{name: east, mountPath: /east}, {name: west, mountPath: /west}]
";
    namespace.apply(manifest).unwrap();
    pod_in_phase(&namespace, "writer", "Succeeded");
    let [east, west] = pair.arrays().map(|array| place(&namespace, array));
    let names = |place: &PathBuf| {
        let entries = std::fs::read_dir(place).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&east), names(&west)),
        (vec!["from-east".to_owned()], vec!["from-west".to_owned()])
    );
    for (array, other) in [(&pair.east, &pair.west), (&pair.west, &pair.east)] {
        let elsewhere = other.files(&directory(&namespace, &array.weka.name));
        assert_eq!(elsewhere, None, "each is on its own array only");
    }

    pair.west.run(false);
    ask(&namespace, "waits", &classes[1], 16 * MIB, false);
    wait_for_event(
        &namespace,
        "waits",
        &["no endpoint of the Weka cluster answers"],
    );
    // All of it while the other is dead.
    ask(&namespace, "goes-on", &classes[0], 16 * MIB, false);
    let reader = Pod::new("reader", "goes-on", "echo > /data/file && ls /data");
    assert_eq!(reader.run(&namespace), "file\n");
    assert_eq!(
        get(&namespace, "pvc", "waits").unwrap()["status"]["phase"],
        "Pending"
    );
    pair.west.run(true);
    directory(&namespace, "waits");
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    remove(
        &namespace,
        &["weka-east", "weka-west", "waits", "goes-on"],
        &[&classes[0], &classes[1]],
    );
    eventually("the directories are gone", || {
        (!east.exists() && !west.exists()).then_some(())
    });
}

/// How a frontend of an array is to be, on every node.
fn connect(array: &Array, is_connected: bool) {
    let container = &array.weka.container;
    let change =
        format!("put /frontends/{container} '{{\"connected\": {is_connected}, \"module\": true}}'");
    array.ask("connect", &change);
}

/// Whether each of the driver's node pods is ready.
fn readiness(driver: &Driver) -> Vec<bool> {
    let pods = driver.kubectl(&["get", "pods", "-lapp=csi-weka-pair-node", "-o", "json"]);
    let pods: Value = serde_json::from_str(&pods).unwrap();
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .iter()
            .any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(is_ready)
        .collect()
}

/// Not at once: a node looks at its client every ten seconds, and the test before may have just moved it.
fn nodes_are_ready(driver: &Driver, are_ready: bool) {
    eventually(&format!("both nodes are ready: {are_ready}"), || {
        (readiness(driver) == [are_ready; 2]).then_some(())
    });
}

#[test]
fn a_frontend_that_is_cut_off_restarts_nothing_and_readiness_tells() {
    let mut pair = pair();
    let pair = &mut pair;
    pair.everywhere();
    let namespace = cluster().namespace("weka-cut").unwrap();
    let classes = pair.claims(&namespace);
    let before = pair.driver.starts();
    for array in pair.arrays() {
        directory(&namespace, &array.weka.name);
    }

    connect(&pair.east, false);
    let cut_off = Pod::new("cut-off", "weka-east", "echo > /data/file && ls /data");
    cut_off.start(&namespace);
    wait_for_event(
        &namespace,
        "cut-off",
        &["container `east` of this node's Weka client is not connected"],
    );
    let other = Pod::new("other", "weka-west", "echo > /data/file && ls /data");
    assert_eq!(other.run(&namespace), "file\n");
    nodes_are_ready(&pair.driver, true);

    connect(&pair.west, false);
    nodes_are_ready(&pair.driver, false);
    let labels = [
        "get",
        "nodes",
        "-l",
        "topology.pair.weka.io/accessible=true",
        "-o",
        "name",
    ];
    let labelled = namespace.kubectl(&labels).unwrap();
    assert_eq!(
        labelled.lines().count(),
        2,
        "labels do not follow every hiccup"
    );

    connect(&pair.west, true);
    connect(&pair.east, true);
    nodes_are_ready(&pair.driver, true);
    pod_in_phase(&namespace, "cut-off", "Succeeded");
    assert_eq!(
        pair.driver.starts(),
        before,
        "the same pods, never started again"
    );
    namespace.kubectl(&["delete", "pod", "cut-off"]).unwrap();
    remove(
        &namespace,
        &["weka-east", "weka-west"],
        &[&classes[0], &classes[1]],
    );
}

#[test]
fn pods_on_nodes_of_different_clusters_are_served_or_told_why() {
    let mut pair = pair();
    let pair = &mut pair;
    pair.everywhere();
    let namespace = cluster().namespace("weka-apart").unwrap();
    let classes = pair.claims(&namespace);
    let [east, west] = pair.arrays().map(|array| place(&namespace, array));

    pair.apart();
    let script = "echo > /data/$HOSTNAME && sleep 1";
    for (array, node) in pair.arrays().into_iter().zip(NODES) {
        Pod::new(node, &array.weka.name, script)
            .scheduled_to(node)
            .start(&namespace);
    }
    let mut lost = Pod::new("lost", "weka-east", script);
    "nodeName: node-b".clone_into(&mut lost.place);
    lost.start(&namespace);
    wait_for_event(
        &namespace,
        "lost",
        &[
            "Weka cluster `weka-east`",
            "run the pod",
            "on a node that is",
        ],
    );
    for node in NODES {
        pod_in_phase(&namespace, node, "Succeeded");
    }
    namespace.kubectl(&["delete", "pod", "lost"]).unwrap();
    Pod::new("lost", "weka-east", script).start(&namespace);
    pod_in_phase(&namespace, "lost", "Succeeded");
    assert!(east.join("node-a").exists() && east.join("lost").exists());
    assert!(west.join("node-b").exists() && !west.join("lost").exists());

    // The controller is on node-a: it can make directories there only where node-a is a client.
    ask(&namespace, "distant", &classes[1], 16 * MIB, false);
    wait_for_event(
        &namespace,
        "distant",
        &["Weka cluster `weka-west`", "the driver's controller"],
    );
    assert_eq!(
        get(&namespace, "pvc", "distant").unwrap()["status"]["phase"],
        "Pending"
    );
    "west".clone_into(&mut pair.west.weka.container);
    pair.west.weka.node = None;
    pair.west.apply_without_waiting();
    directory(&namespace, "distant");
    namespace.kubectl(&["delete", "pod", "--all"]).unwrap();
    remove(
        &namespace,
        &["weka-east", "weka-west", "distant"],
        &[&classes[0], &classes[1]],
    );
}
