//! Weka clients that bring their driver along, in pods: the flow of the documentation after a separately installed plugin, off
//! and on under a writer, and what happens to mounts when a node or the client goes. One walk, because there is one
//! configuration of the operator.

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::{cluster, eventually, get, pod_in_phase, text};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Driver};
use super::weka_owned::{
    CLASS, Csi, DRIVER, NODES, Owned, has_controller, label, topology, until_driver_is_gone,
};
use super::weka_volumes::{class, directory, remove, wait_for_event};

/// Writes numbers until a write fails; then the pod fails.
const WRITER: &str = "n=0; while n=$((n+1)) && echo $n >> /data/log && echo $n > /tmp/written; do sleep 0.1; done; exit 1";
const READER: &str = "while :; do sleep 3600; done";

/// A volume with a file in it, made by a plugin that was installed separately and is gone again.
fn leave_a_volume(array: &Array, namespace: &Namespace) -> String {
    let plugin = Driver::named("csi-weka-before", DRIVER);
    plugin.deploy(array, "");
    array.apply_secret("api", &plugin.name);
    plugin.wait();
    let class = class(namespace, &plugin, "before", "default", Some(["api"; 3]));
    ask(namespace, "before", &class, 16 * MIB, false);
    let writer = Pod::new("before", "before", "echo kept > /data/file");
    assert_eq!(writer.run(namespace), "");
    plugin.kubectl(&["delete", "csidriverdeployment", &plugin.name]);
    class
}

/// A claim of the class that the operator made, for pods on several nodes.
fn share(namespace: &Namespace, name: &str) {
    let manifest = format!(
        "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: {CLASS}
  resources: {{requests: {{storage: 16Mi}}}}
"
    );
    namespace.apply(&manifest).unwrap();
}

fn exec(namespace: &Namespace, pod: &str, script: &str) -> String {
    let words = ["exec", pod, "--", "sh", "-c", script];
    namespace.kubectl(&words).unwrap()
}

/// How many numbers the other node sees, once they are more than so many. None is missing, and the writer lives.
fn more_than(namespace: &Namespace, pod: &str, before: usize) -> usize {
    let seen = eventually("the writer goes on", || {
        let log = exec(namespace, pod, "cat /data/log || true");
        let whole = &log[..=log.rfind('\n')?];
        let expected = whole.lines().enumerate();
        for (index, line) in expected {
            assert_eq!(line, (index + 1).to_string());
        }
        let count = whole.lines().count();
        (count > before).then_some(count)
    });
    assert_eq!(
        get(namespace, "pod", "writer").unwrap()["status"]["phase"],
        "Running"
    );
    seen
}

/// Off and on again while a pod writes, with the sidecars and the driver of other projects from then on. What comes meanwhile waits,
/// says why, and goes on by itself.
fn switch(owned: &Owned, written: usize) -> usize {
    let namespace = &owned.namespace;
    owned.configure(Csi::Off);
    until_driver_is_gone();
    owned.until_deployed_is(false);
    share(namespace, "late");
    Pod::new("late", "late", READER)
        .scheduled_to(NODES[1])
        .start(namespace);
    wait_for_event(namespace, "late", &["not found", "unbound"]);
    let written = more_than(namespace, "reader", written);
    owned.configure(Csi::OfOthers);
    owned.until_deployed(2);
    pod_in_phase(namespace, "late", "Running");
    owned.others_run("reader");
    more_than(namespace, "reader", written)
}

/// The controller deletes volumes of the plugin before it and of its own.
fn until_one_volume_is_left() {
    eventually("the volumes of claims that are gone are gone", || {
        let volumes = cluster().kubectl(&["get", "pv", "-o", "json"]).ok()?;
        let volumes: Value = serde_json::from_str(&volumes).ok()?;
        let volumes = volumes["items"].as_array()?.iter();
        let ours = volumes.filter(|it| text(&it["spec"]["csi"]["driver"]) == DRIVER);
        (ours.count() == 1).then_some(())
    });
}

/// A node that no longer matches: its client stays until the last volume there is unmounted.
fn leave_a_node(owned: &Owned) {
    let namespace = &owned.namespace;
    label(NODES[1], false);
    owned.until_draining(NODES[1]);
    exec(
        namespace,
        "reader",
        "echo still > /data/still && cat /data/still",
    );
    assert_eq!(owned.pods_on(NODES[1]), 2);
    namespace.kubectl(&["delete", "pod", "reader"]).unwrap();
    // The controller goes before: it could mount nothing there.
    eventually("the node has nothing of it", || {
        let is_left = has_controller(NODES[1]) || !topology(NODES[1]).is_empty();
        (!is_left && owned.pods_on(NODES[1]) == 0).then_some(())
    });
    assert_eq!(owned.pods_on(NODES[0]), 2);
    assert!(!topology(NODES[0]).is_empty());
}

/// The client goes while a volume is mounted: in its order, and everything.
fn leave(owned: &Owned) {
    let namespace = &owned.namespace;
    namespace
        .kubectl(&["delete", "wekaclient", "clients", "--wait=false"])
        .unwrap();
    owned.until_draining(NODES[0]);
    let written = exec(namespace, "writer", "cat /tmp/written");
    eventually("the writer goes on", || {
        (exec(namespace, "writer", "cat /tmp/written") != written).then_some(())
    });
    assert_eq!(owned.pods_on(NODES[0]), 2);
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    eventually("the client is gone", || {
        get(namespace, "wekaclient", "clients")
            .is_none()
            .then_some(())
    });
    assert_eq!(owned.pods_on(NODES[0]), 0);
    assert!(topology(NODES[0]).is_empty());
    until_driver_is_gone();
}

#[test]
fn weka_clients_bring_their_driver_along_and_take_it_away() {
    let owned = Owned::start();
    let namespace = &owned.namespace;
    let before = leave_a_volume(&owned.array, namespace);

    owned.configure(Csi::Ours);
    owned.until_deployed(2);
    owned.commands_show_it();
    let migrated = Pod::new("migrated", "before", "cat /data/file");
    assert_eq!(migrated.run(namespace), "kept\n");
    remove(namespace, &["before"], &[&before]);

    share(namespace, "shared");
    directory(namespace, "shared");
    Pod::new("writer", "shared", WRITER)
        .scheduled_to(NODES[0])
        .start(namespace);
    Pod::new("reader", "shared", READER)
        .scheduled_to(NODES[1])
        .start(namespace);
    pod_in_phase(namespace, "writer", "Running");
    pod_in_phase(namespace, "reader", "Running");
    let written = more_than(namespace, "reader", 0);

    switch(&owned, written);
    namespace.kubectl(&["delete", "pod", "late"]).unwrap();
    namespace
        .kubectl(&["delete", "pvc", "late", "--wait=false"])
        .unwrap();
    until_one_volume_is_left();
    leave_a_node(&owned);
    leave(&owned);
    owned.clean_up();
}
