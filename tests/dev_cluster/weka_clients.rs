//! Weka clients that bring their driver along, in pods: the flow of the documentation after a separately installed plugin, what
//! happens to mounts when nodes, containers and clients go, a second Weka cluster, off and on. One walk, because there is one
//! configuration of the operator; a pod writes all the time. The commands of weka-clients.md are among it.

use devcluster::testing::Namespace;
use stowage_testing::Look;
use stowage_tests::{eventually, get, pod_in_phase, text};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Driver};
use super::weka_clients_going::{change_the_selector, leave, leave_nodes, tolerate};
use super::weka_clients_second::bring_a_second_cluster;
use super::weka_clients_seen::until_driver_is_gone;
use super::weka_owned::{CLASS, Csi, DRIVER, NODES, Owned, cluster};
use super::weka_volumes::{class, directory, remove, wait_for_event};

/// Writes numbers until a write fails; then the pod fails.
const WRITER: &str = "n=0; while n=$((n+1)) && echo $n >> /data/log && echo $n > /tmp/written; do sleep 0.1; done; exit 1";
const READER: &str = "while :; do sleep 3600; done";

/// A volume with a file in it, made by a plugin that was installed separately and is gone again.
fn leave_a_volume(array: &Array, namespace: &Namespace) -> String {
    let plugin = Driver::on(cluster(), "csi-weka-before", DRIVER);
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

/// A claim of a class that the operator made, for pods on several nodes.
pub fn share(namespace: &Namespace, name: &str, class: &str) {
    let manifest = format!(
        "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: {class}
  resources: {{requests: {{storage: 16Mi}}}}
"
    );
    namespace.apply(&manifest).unwrap();
}

/// A pod on a node that does nothing, whatever taint comes.
pub fn read(namespace: &Namespace, name: &str, claim: &str, node: &str) {
    let mut reader = Pod::new(name, claim, READER).scheduled_to(node);
    reader
        .place
        .push_str("\n  tolerations: [{operator: Exists}]");
    reader.start(namespace);
}

pub fn exec(namespace: &Namespace, pod: &str, script: &str) -> String {
    let words = ["exec", pod, "--", "sh", "-c", script];
    namespace.kubectl(&words).unwrap()
}

/// A pod can write to its volume, and read what it has written.
pub fn mount_works(namespace: &Namespace, pod: &str) {
    let write = format!("echo still > /data/{pod} && cat /data/{pod}");
    assert_eq!(exec(namespace, pod, &write), "still\n");
}

/// How many numbers a pod sees, once they are more than so many. None is missing, and the writer lives.
pub fn more_than(namespace: &Namespace, pod: &str, before: usize) -> usize {
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

/// The uids of a claim and of its volume: what is made anew under the same name has others.
fn uids_of(namespace: &Namespace, claim: &str) -> [String; 2] {
    let claim = get(namespace, "pvc", claim).unwrap();
    let volume = get(namespace, "pv", text(&claim["spec"]["volumeName"])).unwrap();
    [claim, volume].map(|object| text(&object["metadata"]["uid"]).to_owned())
}

/// Off and on again while a pod writes, with the sidecars and the driver of other projects from then on. What comes meanwhile waits,
/// says why, and goes on by itself.
fn switch(owned: &Owned, written: usize) {
    let namespace = &owned.namespace;
    let before = uids_of(namespace, "shared");
    owned.configure(Csi::Off);
    until_driver_is_gone(DRIVER);
    owned.until("clients", "/status/csiDeployed", "false");
    share(namespace, "late", CLASS);
    read(namespace, "late", "late", NODES[0]);
    wait_for_event(
        namespace,
        "late",
        &["ProvisioningFailed", "FailedScheduling"],
    );
    let written = more_than(namespace, "writer", written);
    assert_eq!(uids_of(namespace, "shared"), before);
    owned.configure(Csi::OfOthers);
    owned.until_deployed("clients", 1);
    pod_in_phase(namespace, "late", "Running");
    owned.others_run("writer");
    more_than(namespace, "writer", written);
    assert_eq!(uids_of(namespace, "shared"), before);
}

/// The controller deletes volumes of the plugin before it and of its own.
fn until_one_volume_is_left() {
    eventually("the volumes of claims that are gone are gone", || {
        let volumes = Look::at(cluster().kubeconfig()).list("pv", None, "", "")?;
        let ours = volumes
            .iter()
            .filter(|it| it["spec"]["csi"]["driver"] == DRIVER);
        (ours.count() == 1).then_some(())
    });
}

#[test]
fn weka_clients_bring_their_driver_along_and_take_it_away() {
    let owned = Owned::start();
    let namespace = &owned.namespace;
    let before = leave_a_volume(&owned.prod, namespace);

    owned.configure(Csi::Ours);
    owned.until_deployed("clients", 3);
    owned.commands_show_it();
    let migrated = Pod::new("migrated", "before", "cat /data/file");
    assert_eq!(migrated.run(namespace), "kept\n");
    remove(namespace, &["before"], &[&before]);

    share(namespace, "shared", CLASS);
    directory(namespace, "shared");
    Pod::new("writer", "shared", WRITER)
        .scheduled_to(NODES[0])
        .start(namespace);
    read(namespace, "reader-b", "shared", NODES[1]);
    read(namespace, "reader-c", "shared", NODES[2]);
    for pod in ["writer", "reader-b", "reader-c"] {
        pod_in_phase(namespace, pod, "Running");
    }
    let written = more_than(namespace, "reader-b", 0);
    owned.array_lists_clients("writer");

    leave_nodes(&owned);
    tolerate(&owned);
    change_the_selector(&owned);
    bring_a_second_cluster(&owned);
    let written = more_than(namespace, "writer", written);

    switch(&owned, written);
    namespace.kubectl(&["delete", "pod", "late"]).unwrap();
    namespace
        .kubectl(&["delete", "pvc", "late", "--wait=false"])
        .unwrap();
    until_one_volume_is_left();
    leave(&owned);
}
