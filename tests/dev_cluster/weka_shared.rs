//! What pods see of a Weka filesystem: the volume they were given, as they were given it, and nothing else.

use devcluster::testing::Namespace;
use stowage_tests::{cluster, pod_in_phase};

use super::claims::{MIB, Pod, ask};
use super::weka_array::weka;
use super::weka_volumes::{class, directory, remove};

const SECRET: &str = "csi-wekafs-api-secret";

/// A claim that nobody may write to.
fn ask_read_only(namespace: &Namespace, name: &str, class: &str) {
    let manifest = format!(
        "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadOnlyMany]
  storageClassName: {class}
  resources: {{requests: {{storage: 16Mi}}}}
"
    );
    namespace.apply(&manifest).unwrap();
}

#[test]
fn pods_of_two_nodes_read_a_volume_for_readers_and_cannot_write() {
    let weka = weka();
    let namespace = cluster().namespace("weka-readers").unwrap();
    let class = class(
        &namespace,
        &weka.driver,
        "api",
        "default",
        Some([SECRET; 3]),
    );
    ask_read_only(&namespace, "data", &class);
    let place = weka.array.files(&directory(&namespace, "data")).unwrap();
    std::fs::write(place.join("file"), "for all\n").unwrap();
    let script = "cat /data/file; echo more >> /data/file || echo refused";
    for node in ["node-a", "node-b"] {
        let said = Pod::new("reader", "data", script)
            .scheduled_to(node)
            .run(&namespace);
        // What it prints and what it complains of may change places.
        for part in ["for all\n", "Read-only file system", "refused\n"] {
            assert!(said.contains(part), "{node}: {said}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(place.join("file")).unwrap(),
        "for all\n"
    );
    remove(&namespace, &["data"], &[&class]);
}

/// A pod that has the node's directories, as those of monitoring and backup have.
const VISITOR: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: visitor}
spec:
  nodeName: node-a
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: run, hostPath: {path: /run}}
  - {name: kubelet, hostPath: {path: /var/lib/kubelet}}
  containers:
  - name: main
    image: busybox
    command: [cat, /proc/self/mountinfo]
    securityContext: {privileged: true}
    volumeMounts:
    - {name: run, mountPath: /host/run, mountPropagation: HostToContainer}
    - {name: kubelet, mountPath: /host/kubelet, mountPropagation: HostToContainer}
";

#[test]
fn a_pod_with_the_nodes_directories_sees_no_filesystem() {
    let weka = weka();
    let namespace = cluster().namespace("weka-visitor").unwrap();
    let class = class(
        &namespace,
        &weka.driver,
        "api",
        "default",
        Some([SECRET; 3]),
    );
    ask(&namespace, "data", &class, 16 * MIB, false);
    Pod::new("owner", "data", "sleep 600").start(&namespace);
    pod_in_phase(&namespace, "owner", "Running");
    namespace.apply(VISITOR).unwrap();
    pod_in_phase(&namespace, "visitor", "Succeeded");
    let seen = namespace.kubectl(&["logs", "visitor"]).unwrap();
    // The filesystem is mounted on the node, for as long as the owner runs. Volumes of pods are directories of it.
    let mounts = seen.lines().filter(|line| line.contains(" fuse.wekafs "));
    let roots: Vec<_> = mounts.map(|line| line.split(' ').nth(3).unwrap()).collect();
    assert!(!roots.is_empty(), "volumes of pods are seen: {seen}");
    assert!(!roots.contains(&"/"), "{seen}");
    for pod in ["owner", "visitor"] {
        namespace.kubectl(&["delete", "pod", pod]).unwrap();
    }
    remove(&namespace, &["data"], &[&class]);
}
