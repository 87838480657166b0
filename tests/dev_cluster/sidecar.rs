//! The whole way with the samples as they are: claim, sidecar, driver, kubelet, pod, and back to nothing.

use std::path::PathBuf;

use devcluster::testing::Namespace;
use stowage_tests::{cluster, eventually, pod_in_phase, until_no_volume_of};

use super::claims::{MIB, NODE, Pod, ask};
use super::driver_on_node::DriverOnNode;
use super::shape::Shape;

const OTHER_NODE: &str = "node-b";

/// Deletes a claim and waits until its volume is gone from the cluster.
fn delete(namespace: &Namespace, driver: &DriverOnNode, claims: &[&str]) {
    let mut arguments = vec!["delete", "pvc"];
    arguments.extend(claims);
    namespace.kubectl(&arguments).unwrap();
    until_no_volume_of(cluster(), &driver.name);
}

#[test]
fn every_node_provisions_for_the_pods_that_are_scheduled_to_it() {
    let cluster = cluster();
    let namespace = cluster.namespace("whole").unwrap();
    let dev = cluster.dev().unwrap();
    let driver = DriverOnNode::start(dev, &namespace, NODE, Shape::EveryNode);
    driver.wait_until_known(OTHER_NODE);

    ask(&namespace, "here", &driver.name, 32 * MIB, false);
    ask(&namespace, "there", &driver.name, 32 * MIB, false);
    ask(&namespace, "raw", &driver.name, 16 * MIB, true);
    let write = "echo kept > /data/file && sync && df -k /data | tail -1";
    Pod::new("here-1", "here", write)
        .scheduled_to(NODE)
        .run(&namespace);
    Pod::new("there-1", "there", write)
        .scheduled_to(OTHER_NODE)
        .run(&namespace);
    assert!(!driver.files_on(NODE).is_empty());
    assert!(!driver.files_on(OTHER_NODE).is_empty());
    // The volume decides: it is where its first pod was.
    let read = Pod {
        place: "nodeSelector: {}".to_owned(),
        ..Pod::new("there-2", "there", "cat /data/file")
    };
    assert_eq!(read.run(&namespace), "kept\n");
    let block = "echo block | dd of=/dev/data conv=fsync 2>/dev/null; head -n 1 /dev/data";
    let raw = Pod::with_device("raw-1", "raw", block).scheduled_to(OTHER_NODE);
    assert_eq!(raw.run(&namespace), "block\n");

    delete(&namespace, &driver, &["here", "there", "raw"]);
    assert_eq!(driver.files_on(NODE), Vec::<PathBuf>::new());
    assert_eq!(driver.files_on(OTHER_NODE), Vec::<PathBuf>::new());
}

#[test]
fn a_volume_is_detached_from_one_node_and_attached_to_the_other() {
    let cluster = cluster();
    let namespace = cluster.namespace("moving").unwrap();
    let dev = cluster.dev().unwrap();
    let driver = DriverOnNode::start(dev, &namespace, NODE, Shape::SharedDisk);
    driver.wait_until_known(OTHER_NODE);

    ask(&namespace, "disk", &driver.name, 32 * MIB, false);
    let write = Pod::new(
        "first",
        "disk",
        "echo moved > /data/file; sync; sleep 1000000",
    );
    write.scheduled_to(NODE).start(&namespace);
    pod_in_phase(&namespace, "first", "Running");
    assert_eq!(attached_to(&namespace, &driver), [NODE]);
    namespace.kubectl(&["delete", "pod", "first"]).unwrap();
    let read = Pod::new("second", "disk", "cat /data/file").scheduled_to(OTHER_NODE);
    assert_eq!(read.run(&namespace), "moved\n");

    delete(&namespace, &driver, &["disk"]);
    eventually("no attachment is left", || {
        attached_to(&namespace, &driver).is_empty().then_some(())
    });
    assert_eq!(driver.files(), Vec::<PathBuf>::new());
    std::fs::remove_dir_all(driver.state()).unwrap();
}

/// The nodes to which volumes of the driver are attached.
fn attached_to(namespace: &Namespace, driver: &DriverOnNode) -> Vec<String> {
    let path = "jsonpath={range .items[*]}{.spec.attacher} {.spec.nodeName} {.status.attached}{'\\n'}{end}";
    let all = namespace
        .kubectl(&["get", "volumeattachment", "-o", path])
        .unwrap();
    let of_driver = |line: &str| {
        let mut words = line.split(' ');
        let ours = words.next() == Some(&driver.name);
        let node = words.next()?.to_owned();
        (ours && words.next() == Some("true")).then_some(node)
    };
    all.lines().filter_map(of_driver).collect()
}
