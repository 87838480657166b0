//! What people install: the bundle on a cluster that can pull nothing, and the chart through its whole life, with a pod that writes to
//! its volume all the time. On a cluster of its own, because there is one operator in a cluster. install.md tells people of both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::process::{capture, wait_until};
use devcluster::testing::{Namespace, TestCluster};
use nix::sys::signal::{Signal, kill};
use stowage_chart::chart::Chart;
use stowage_chart::release::Kubectl;
use stowage_tests::{
    OwnCluster, PATIENCE, eventually, get, pod_in_phase, until_available, until_no_volume_is_left,
};

use super::chart_life::Helm;

const CLUSTER: &str = "test-charts";
/// Where what is installed for everybody is found.
pub const OF_RELEASE: &str = "app.kubernetes.io/part-of=stowage";

/// Writes the time to its volume, and notes when that fails.
const WRITER: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: CLASS, resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'while date >> /data/dates && sync; do sleep 0.2; done; echo failed > /dev/termination-log; exit 1']
    volumeMounts: [{name: data, mountPath: /data}]
  restartPolicy: Never
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

pub fn start_writer<'a>(cluster: &'a TestCluster, class: &str) -> Namespace<'a> {
    let namespace = cluster.namespace("chart").unwrap();
    namespace.apply(&WRITER.replace("CLASS", class)).unwrap();
    pod_in_phase(&namespace, "writer", "Running");
    namespace
}

/// The pod that was started first still writes.
pub fn assert_writes(namespace: &Namespace) {
    let lines = || -> usize {
        let count = namespace.kubectl(&["exec", "writer", "--", "wc", "-l", "/data/dates"]);
        count
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    let before = lines();
    eventually("the writer writes", || (lines() > before).then_some(()));
    let pod = get(namespace, "pod", "writer").unwrap();
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

pub fn stop_writer(namespace: &Namespace) {
    namespace
        .kubectl(&["delete", "pod/writer", "pvc/data"])
        .unwrap();
}

/// Ends the only source of images that the nodes have.
fn stop_registry(cluster: &TestCluster) {
    let dev = cluster.dev().unwrap();
    let registry = || {
        let parts = dev.status().unwrap();
        parts
            .into_iter()
            .find(|part| part.name == "registry")
            .unwrap()
            .pid
    };
    kill(registry().unwrap(), Signal::SIGKILL).unwrap();
    wait_until(
        "the registry is gone",
        PATIENCE,
        Path::new("/dev/null"),
        || Ok(registry().is_none()),
    )
    .unwrap();
}

/// Unpacks the bundle as its reader would; returns the directory in it.
fn unpacked(own: &OwnCluster, to: &Path) -> PathBuf {
    let said = own.run(&["bundle", "--quick"]);
    let file = said
        .lines()
        .rfind(|line| line.ends_with("-bundle.tar.gz"))
        .unwrap();
    capture(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(to)).unwrap();
    let directory = fs::read_dir(to).unwrap().next().unwrap().unwrap().path();
    let check = capture(
        Command::new("sha256sum")
            .args(["--check", "--quiet", "SHA256SUMS"])
            .current_dir(&directory),
    );
    assert_eq!(check.unwrap(), "");
    directory
}

/// Commands of a page's fenced blocks that are for kubectl.
fn kubectl_commands(page: &str) -> Vec<Vec<String>> {
    let lines = page
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("kubectl "));
    let words = |line: &str| {
        line.split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .map(str::to_owned)
            .collect()
    };
    lines.map(words).collect()
}

#[test]
fn a_bundle_is_all_that_a_cluster_without_a_registry_needs_and_a_chart_lives_its_whole_life() {
    let own = OwnCluster::named(CLUSTER);
    own.run(&["up", "--nodes", "1"]);
    let cluster = TestCluster::named(CLUSTER).unwrap();
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bundle = unpacked(&own, scratch.path());
    // A pod of the test's own: its image is there before the registry goes.
    cluster
        .kubectl(&[
            "run",
            "first",
            "--image=busybox",
            "--restart=Never",
            "--",
            "true",
        ])
        .unwrap();
    eventually("busybox is on the node", || {
        let phase = cluster
            .kubectl(&["get", "pod", "first", "-o", "jsonpath={.status.phase}"])
            .ok()?;
        (phase == "Succeeded").then_some(())
    });
    stop_registry(&cluster);
    by_bundle(&cluster, &bundle);
    by_chart(&cluster, &bundle, scratch.path());
}

fn by_bundle(cluster: &TestCluster, bundle: &Path) {
    let dev = cluster.dev().unwrap();
    dev.load_image(&bundle.join("images/stowage.tar")).unwrap();
    let page = fs::read_to_string(bundle.join("INSTALL.md")).unwrap();
    let steps = kubectl_commands(&page);
    assert_eq!(steps.len(), 6, "{steps:?}");
    for step in &steps {
        let words: Vec<_> = step
            .iter()
            .map(|word| match word.strip_prefix("deploy/") {
                Some(file) => bundle.join("deploy").join(file).display().to_string(),
                None => word.clone(),
            })
            .collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        // The last steps define snapshots: the classes of the first ones follow.
        cluster.kubectl(&words).unwrap();
    }
    until_available(cluster, "default", "hostpath");
    let namespace = start_writer(cluster, "my-default-class");
    assert_writes(&namespace);
    stop_writer(&namespace);
    until_no_volume_is_left(cluster);
    delete_manifests(cluster, &bundle.join("deploy"));
}

/// What was applied from `deploy`, in the documented order.
pub fn delete_manifests(cluster: &TestCluster, deploy: &Path) {
    let instances = ["csidriverdeployments", "--all", "--all-namespaces"];
    cluster
        .kubectl(&[&["delete"], &instances[..]].concat())
        .unwrap();
    for file in ["operator.yaml", "prerequisites", "snapshot-controller.yaml"] {
        let file = deploy.join(file).display().to_string();
        cluster
            .kubectl(&["delete", "--ignore-not-found", "-f", &file])
            .unwrap();
    }
}

/// Installs charts on a cluster.
pub fn helm_on(cluster: &TestCluster) -> Kubectl {
    Kubectl {
        program: cluster.kubectl_program().to_owned(),
        kubeconfig: cluster.kubeconfig().to_owned(),
        patience: PATIENCE,
    }
}

fn by_chart(cluster: &TestCluster, bundle: &Path, scratch: &Path) {
    let archive = fs::read_dir(bundle.join("charts")).unwrap();
    let mut archives = archive.map(|it| it.unwrap().path());
    let archive = archives
        .find(|it| it.display().to_string().contains("/stowage-"))
        .unwrap();
    capture(
        Command::new("tar")
            .arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(scratch),
    )
    .unwrap();
    let directory = scratch.join("stowage");
    let helm = Helm {
        cluster,
        kubectl: helm_on(cluster),
        chart: Chart::load(&directory).unwrap(),
    };
    let first = helm.installed();
    let namespace = start_writer(cluster, "hostpath");
    let second = helm.upgraded(&first, &directory);
    assert_writes(&namespace);
    helm.refuses_what_is_wrong(&second);
    let third = helm.rolled_back(&second, &first);
    assert_writes(&namespace);
    helm.keeps_what_is_in_use(&third, &namespace);
    helm.uninstalled(&third);
}
