//! What people install: the bundle on a cluster that can pull nothing, and the chart through its whole life, with a pod that writes to
//! its volume all the time. On a cluster of its own, because there is one operator in a cluster. install.md tells people of both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::process::{capture, wait_until};
use devcluster::testing::{Namespace, TestCluster};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::release::{Kubectl, Revision};
use stowage_chart::render::Identity;
use stowage_tests::{OwnCluster, PATIENCE, STOWAGE_IMAGE, eventually, get, pod_in_phase, text};

const CLUSTER: &str = "test-charts";
/// Where what is installed for everybody is found.
const OF_RELEASE: &str = "app.kubernetes.io/part-of=stowage";

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

fn start_writer<'a>(cluster: &'a TestCluster, class: &str) -> Namespace<'a> {
    let namespace = cluster.namespace("chart").unwrap();
    namespace.apply(&WRITER.replace("CLASS", class)).unwrap();
    pod_in_phase(&namespace, "writer", "Running");
    namespace
}

/// The pod that was started first still writes.
fn assert_writes(namespace: &Namespace) {
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

fn stop_writer(namespace: &Namespace) {
    namespace
        .kubectl(&["delete", "pod/writer", "pvc/data"])
        .unwrap();
}

fn until_no_volume_is_left(cluster: &TestCluster) {
    eventually("the volume is gone", || {
        let volumes = cluster.kubectl(&["get", "pv", "-o", "name"]).ok()?;
        volumes.trim().is_empty().then_some(())
    });
}

fn until_available(cluster: &TestCluster, namespace: &str, name: &str) {
    let patience = format!("--timeout={}s", PATIENCE.as_secs());
    let namespace = format!("--namespace={namespace}");
    let wait = ["wait", "--for=condition=Available", &patience, &namespace];
    let instance = format!("csidriverdeployment/{name}");
    cluster
        .kubectl(&[&wait[..], &[&instance]].concat())
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
    // In the documented order.
    cluster
        .kubectl(&[
            "delete",
            "csidriverdeployments",
            "--all",
            "--all-namespaces",
        ])
        .unwrap();
    for file in ["operator.yaml", "prerequisites", "snapshot-controller.yaml"] {
        let file = bundle.join("deploy").join(file).display().to_string();
        cluster
            .kubectl(&["delete", "--ignore-not-found", "-f", &file])
            .unwrap();
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
        kubectl: Kubectl {
            program: cluster.kubectl_program().to_owned(),
            kubeconfig: cluster.kubeconfig().to_owned(),
            patience: PATIENCE,
        },
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

struct Helm<'a> {
    cluster: &'a TestCluster,
    kubectl: Kubectl,
    chart: Chart,
}

/// The embedded driver, on the one node.
fn values() -> Value {
    json!({
        "image": {"pullPolicy": "Never"},
        "snapshotController": {"enabled": true, "replicas": 1},
        "setup": {"timeoutSeconds": 60},
        "drivers": {"hostpath": {"enabled": true}},
    })
}

impl Helm<'_> {
    fn identity() -> Identity {
        Identity::new("storage", "mine")
    }

    fn installed(&self) -> Revision {
        let release = self
            .kubectl
            .install(&self.chart, &values(), &Self::identity())
            .unwrap();
        assert!(
            release.notes.contains("storageClassName: hostpath"),
            "{}",
            release.notes
        );
        until_available(self.cluster, "storage", "hostpath");
        // What only hooks needed is gone.
        let left = self
            .cluster
            .kubectl(&[
                "get",
                "clusterroles,jobs,serviceaccounts",
                "-A",
                "-o",
                "name",
            ])
            .unwrap();
        assert!(!left.contains("setup"), "{left}");
        release
    }

    /// To a newer chart, with another class.
    fn upgraded(&self, old: &Revision, directory: &Path) -> Revision {
        let file = directory.join("Chart.yaml");
        let metadata = fs::read_to_string(&file).unwrap();
        let version = format!("version: {}", self.chart.version());
        fs::write(&file, metadata.replacen(&version, "version: 99.0.0", 1)).unwrap();
        let newer = Chart::load(directory).unwrap();
        assert_eq!(newer.version(), "99.0.0");
        let mut own = values();
        own["drivers"]["hostpath"]["storageClasses"] = json!([{"metadata": {"name": "hostpath"}, "allowVolumeExpansion": true}, {"metadata": {"name": "second"}}]);
        own["drivers"]["hostpath"]["spec"] = json!({"probePeriodSeconds": 45});
        let release = self.kubectl.upgrade(old, &newer, &own).unwrap();
        eventually("the second class", || {
            self.cluster
                .kubectl(&["get", "storageclass", "second"])
                .ok()
        });
        until_available(self.cluster, "storage", "hostpath");
        release
    }

    fn refuses_what_is_wrong(&self, current: &Revision) {
        let before = self.everything();
        let mut own = values();
        own["drivers"]["hostpath"]["layout"] = json!("nowhere");
        let error = self
            .kubectl
            .upgrade(current, &self.chart, &own)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("drivers.hostpath.layout: must be one of"),
            "{error}"
        );
        let other = Identity::new("elsewhere", "other");
        let error = self
            .kubectl
            .install(&self.chart, &values(), &other)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("release mine in namespace storage has installed the operator already"),
            "{error}"
        );
        // Without an operator of its own it may be, but not with an instance that somebody else made.
        let mut own = values();
        own["operator"] = json!({"enabled": false});
        own["snapshotController"] = json!({"enabled": false});
        own["drivers"]["hostpath"]["namespace"] = json!("storage");
        let error = self
            .kubectl
            .install(&self.chart, &own, &other)
            .unwrap_err()
            .to_string();
        assert!(
            error
                .contains("CSIDriverDeployment storage/hostpath exists and is not of this release"),
            "{error}"
        );
        assert_eq!(before, self.everything());
        let namespaces = ["get", "namespace", "elsewhere", "--ignore-not-found"];
        assert_eq!(self.cluster.kubectl(&namespaces).unwrap(), "");
        // A definition of a newer release is not set back.
        let definition =
            "customresourcedefinition/csidriverdeployments.csidriver.storage.openshift.io";
        self.cluster
            .kubectl(&[
                "annotate",
                "--overwrite",
                definition,
                "stowage.dev/version=99.0.0",
            ])
            .unwrap();
    }

    /// What the release consists of, as the server counts changes.
    fn everything(&self) -> Vec<String> {
        // Statuses of workloads are written whenever a pod of theirs is gone for good.
        let kinds = [
            ("deployment,daemonset", "generation"),
            (
                "csidriverdeployment,configmap,clusterrole,storageclass",
                "resourceVersion",
            ),
        ];
        let lines = kinds.map(|(kinds, version)| {
            let columns = format!(
                "--output=custom-columns=K:.kind,N:.metadata.name,R:.metadata.{version},L:.metadata.labels"
            );
            let get = ["get", kinds, "--all-namespaces", "--no-headers", &columns];
            self.cluster.kubectl(&get).unwrap()
        });
        let ours = lines
            .iter()
            .flat_map(|it| it.lines())
            .filter(|line| line.contains("stowage") || line.contains("hostpath"));
        ours.map(str::to_owned).collect()
    }

    fn rolled_back(&self, current: &Revision, target: &Revision) -> Revision {
        let release = self.kubectl.roll_back(current, target).unwrap();
        eventually("the second class is gone", || {
            self.cluster
                .kubectl(&["get", "storageclass", "second"])
                .err()
        });
        until_available(self.cluster, "storage", "hostpath");
        let version = "--output=jsonpath={.metadata.annotations.stowage\\.dev/version}";
        let definition =
            "customresourcedefinition/csidriverdeployments.csidriver.storage.openshift.io";
        assert_eq!(
            self.cluster.kubectl(&["get", definition, version]).unwrap(),
            "99.0.0"
        );
        release
    }

    fn keeps_what_is_in_use(&self, release: &Revision, namespace: &Namespace) {
        let error = self.kubectl.uninstall(release).unwrap_err().to_string();
        for words in [
            "pre-delete hooks failed",
            "CSIDriverDeployment storage/hostpath",
            "PersistentVolume",
            "then uninstall again",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert_writes(namespace);
        self.cluster
            .kubectl(&["--namespace=storage", "get", "deployment/csi-operator"])
            .unwrap();
        stop_writer(namespace);
        until_no_volume_is_left(self.cluster);
    }

    fn uninstalled(&self, release: &Revision) {
        self.kubectl.uninstall(release).unwrap();
        let kinds = "deployment,daemonset,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,configmap,job";
        let left = self
            .cluster
            .kubectl(&["get", kinds, "-A", "-l", OF_RELEASE, "-o", "name"])
            .unwrap();
        assert_eq!(left, "");
        for kind in [
            "csidriverdeployments,csidrivers,storageclasses",
            "daemonsets,deployments",
        ] {
            let left = self
                .cluster
                .kubectl(&["get", kind, "-A", "-o", "name"])
                .unwrap();
            assert_eq!(left, "", "{kind}");
        }
        // Definitions stay.
        let definitions = self.cluster.kubectl(&["get", "crd", "-o", "name"]).unwrap();
        assert!(
            definitions.contains("csidriverdeployments"),
            "{definitions}"
        );
        let pulled = self
            .cluster
            .kubectl(&["get", "events", "-A", "-o", "json"])
            .unwrap();
        let events: Value = serde_json::from_str(&pulled).unwrap();
        let refused = events["items"].as_array().unwrap().iter();
        let refused: Vec<_> = refused
            .filter(|it| {
                text(&it["message"]).contains(STOWAGE_IMAGE) && text(&it["reason"]) == "Pulling"
            })
            .collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}
