//! The API server is killed while volumes are made, with a kubelet and real volumes. Nothing but the API server is started again: Kubernetes' own controllers, the
//! sidecar and the driver come back by themselves.

use std::fs;
use std::path::PathBuf;

use devcluster::cluster::Cluster;
use nix::sys::signal::{Signal, kill};
use stowage_tests::{OwnCluster, eventually};

use super::lifecycle::pid_of;
use super::shape::Shape;

const NAME: &str = "test-outage";
const DRIVER: &str = "outage.stowage.dev";
const CONTROLLERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// Claims, each with a pod that writes its name into the volume.
fn claims(names: &[&str]) -> String {
    let one = |name: &&str| {
        format!(
            r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, labels: {{ours: "true"}}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {DRIVER}
  resources: {{requests: {{storage: 16Mi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{ours: "true"}}}}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
  containers:
    - name: main
      image: busybox
      command: [sh, -c, "echo {name} > /data/file; sync; sleep 1000000"]
      volumeMounts: [{{name: data, mountPath: /data}}]
"#
        )
    };
    names.iter().map(one).collect::<Vec<_>>().join("---")
}

/// What the driver keeps of volumes on the node.
fn volumes(cluster: &Cluster) -> Vec<PathBuf> {
    let state = Shape::EveryNode.state_directory(DRIVER);
    let volumes = cluster
        .directory()
        .join("nodes/node-a")
        .join(state)
        .join("volumes");
    let entries = fs::read_dir(volumes).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn an_api_server_that_is_killed_costs_no_volume_and_leaves_none() {
    let own = OwnCluster::named(NAME);
    own.run(&["up", "--nodes", "1"]);
    // Its node pulls the image under test from the cluster's own registry.
    let cluster = Cluster::named(NAME).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let apply = |text: &str| {
        let file = folder.path().join("manifest.yaml");
        fs::write(&file, text).unwrap();
        own.run(&["kubectl", "apply", "-f", file.to_str().unwrap()]);
    };
    apply(&Shape::EveryNode.manifest(DRIVER, "default"));
    let rollout = ["rollout", "status", "daemonset/hostpath", "--timeout=80s"];
    own.run(&[&["kubectl"], &rollout[..]].concat());
    let controllers = CONTROLLERS.map(|name| pid_of(&cluster, name));

    let names = ["a", "b", "c", "d", "e", "f"];
    apply(&claims(&names));
    kill(pid_of(&cluster, "kube-apiserver").unwrap(), Signal::SIGKILL).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(5));
    own.run(&["up"]);
    assert_eq!(CONTROLLERS.map(|name| pid_of(&cluster, name)), controllers);

    for name in names {
        eventually(&format!("pod {name} has written"), || {
            let read = own.try_run(&["kubectl", "exec", name, "--", "cat", "/data/file"]);
            (String::from_utf8_lossy(&read.stdout).trim() == name).then_some(())
        });
    }
    let objects = || {
        let list = own.run(&["kubectl", "get", "pv", "-o", "name"]);
        list.matches("persistentvolume/").count()
    };
    assert_eq!(objects(), names.len());
    own.run(&["kubectl", "delete", "pods,pvc", "-l", "ours"]);
    eventually("no volume is left, in the cluster or on the node", || {
        (objects() == 0 && volumes(&cluster).is_empty()).then_some(())
    });
}
