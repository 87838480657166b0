//! From the release before this one to this one, and back: operator, sidecar, hostpath and Weka, with pods that write to volumes of both
//! all the time. On a cluster of its own, because there is one operator in a cluster.

mod charts;

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::process::capture;
use devcluster::testing::{Namespace, TestCluster};
use devcluster::weka_sim::SimulatedWeka;
use serde_json::Value;
use stowage_tests::copies::{claim, of_snapshot, snapshot};
use stowage_tests::{
    OwnCluster, PATIENCE, STOWAGE_IMAGE, eventually, eventually_or, get, pod_in_phase, text,
};

use super::charts::delete_manifests;

const CLUSTER: &str = "test-upgrade";
/// As `./x test` makes it.
const PREVIOUS_IMAGE: &str = "stowage.dev/stowage:previous";
const COMMIT: &str = include_str!("../../release/previous");

/// Volumes of both drivers: the class, a size and a larger one.
const KINDS: [(&str, &str, &str, &str); 2] = [
    ("host", "upgrade-xfs", "320Mi", "400Mi"),
    ("weka", "storageclass-wekafs-dir-api", "64Mi", "96Mi"),
];

const CLASSES: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: upgrade-xfs}
provisioner: csi-hostpath
allowVolumeExpansion: true
parameters: {csi.storage.k8s.io/fstype: xfs}
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Which release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Previous,
    Current,
}

impl Release {
    fn image(self) -> &'static str {
        match self {
            Self::Previous => PREVIOUS_IMAGE,
            Self::Current => STOWAGE_IMAGE,
        }
    }

    /// A file of it, or all of a directory, with its image.
    fn manifest(self, path: &str) -> String {
        let root = root();
        let text = match self {
            Self::Current if root.join(path).is_dir() => {
                let mut files: Vec<_> = std::fs::read_dir(root.join(path))
                    .unwrap()
                    .map(|it| it.unwrap().path())
                    .collect();
                files.sort();
                let texts: Vec<_> = files
                    .iter()
                    .map(|it| std::fs::read_to_string(it).unwrap())
                    .collect();
                texts.join("\n---\n")
            }
            Self::Current => std::fs::read_to_string(root.join(path)).unwrap(),
            Self::Previous => {
                let git = |arguments: &[&str]| {
                    capture(Command::new("git").args(arguments).current_dir(&root)).unwrap()
                };
                let commit = COMMIT.trim();
                let below = if root.join(path).is_dir() {
                    format!("{path}/")
                } else {
                    path.to_owned()
                };
                let files = git(&["ls-tree", "--name-only", commit, &below]);
                let texts: Vec<_> = files
                    .lines()
                    .map(|file| git(&["show", &format!("{commit}:{file}")]))
                    .collect();
                texts.join("\n---\n")
            }
        };
        text.replace(STOWAGE_IMAGE, self.image())
    }
}

struct Site {
    cluster: TestCluster,
    weka: SimulatedWeka,
}

impl Site {
    /// Operator and drivers of a release. Definitions are never set back.
    fn install(&self, release: Release, with_definitions: bool) {
        if with_definitions {
            for file in [
                "crds/snapshot.storage.k8s.io.yaml",
                "crds/groupsnapshot.storage.k8s.io.yaml",
                "prerequisites",
            ] {
                self.cluster
                    .apply(&release.manifest(&format!("deploy/{file}")))
                    .unwrap();
            }
        }
        for file in ["snapshot-controller.yaml", "operator.yaml"] {
            self.cluster
                .apply(&release.manifest(&format!("deploy/{file}")))
                .unwrap();
        }
        // An instance keeps the directory that its volumes are in, as the guide says.
        let sample = release
            .manifest("deploy/samples/hostpath.yaml")
            .replace("/var/lib/stowage/csi-hostpath", "/tmp/csi-hostpath");
        self.cluster.apply(&sample).unwrap();
        let sample = self
            .weka
            .with_stand_ins(&release.manifest("deploy/samples/weka.yaml"), "")
            .unwrap();
        self.cluster.apply(&sample).unwrap();
        self.until_all_run(release);
    }

    /// Every pod is of the release, and ready.
    fn until_all_run(&self, release: Release) {
        let patience = format!("--timeout={}s", PATIENCE.as_secs());
        for (namespace, workload) in [
            ("csi-operator", "deployment/csi-operator"),
            ("kube-system", "deployment/snapshot-controller"),
        ] {
            let namespace = format!("--namespace={namespace}");
            self.cluster
                .kubectl(&["rollout", "status", workload, &namespace, &patience])
                .unwrap();
        }
        let drivers = [("default", "hostpath"), ("csi-wekafs", "csi-wekafs")];
        for (namespace, name) in drivers {
            let what = format!("{name} of {release:?}");
            eventually_or(
                &what,
                || self.runs(namespace, name, release),
                || {
                    let describe = [
                        "describe",
                        "csidriverdeployment,pods",
                        "--namespace",
                        namespace,
                    ];
                    self.cluster.kubectl(&describe).unwrap_or_default()
                },
            );
        }
    }

    fn runs(&self, namespace: &str, name: &str, release: Release) -> Option<()> {
        let json = |arguments: &[&str]| -> Option<Value> {
            let text = self
                .cluster
                .kubectl(&[arguments, &["--namespace", namespace, "-o", "json"]].concat())
                .ok()?;
            serde_json::from_str(&text).ok()
        };
        let instance = json(&["get", "csidriverdeployment", name])?;
        let status = &instance["status"];
        let is = |kind: &str, wanted: &str| {
            status["conditions"].as_array().is_some_and(|all| {
                all.iter()
                    .any(|it| it["type"] == kind && it["status"] == wanted)
            })
        };
        let is_current = status["observedGeneration"] == instance["metadata"]["generation"];
        (is_current && is("Available", "True") && is("Progressing", "False")).then_some(())?;
        let pods = json(&["get", "pods"])?;
        let workloads = [
            ("deployment", format!("{name}-controller")),
            ("daemonset", format!("{name}-node")),
        ];
        let is_of_driver = |pod: &&Value| {
            let labels = &pod["metadata"]["labels"];
            let label = |kind: &str| &labels[format!("csidriver.storage.openshift.io/{kind}")];
            workloads
                .iter()
                .any(|(kind, workload)| label(kind) == workload)
        };
        let pods = pods["items"].as_array()?.iter().filter(is_of_driver);
        let images = pods.flat_map(|pod| {
            pod["spec"]["containers"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        });
        let images: Vec<_> = images.map(|it| text(&it["image"]).to_owned()).collect();
        let ours = images
            .iter()
            .filter(|it| it.starts_with("stowage.dev/stowage:"));
        (ours.clone().count() >= 4 && ours.clone().all(|it| it == release.image())).then_some(())
    }
}

/// A claim of a kind, and a pod that writes to it.
fn begin(namespace: &Namespace, prefix: &str) {
    for (kind, class, size, _) in KINDS {
        let name = format!("{prefix}-{kind}");
        claim(namespace, &name, class, size, None);
        let script =
            "i=0; while i=$((i+1)); echo $i >> /data/log && sync; do sleep 0.1; done; exit 1";
        let pod = format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{{name: main, image: busybox, command: [sh, -c, '{script}'], volumeMounts: [{{name: data, mountPath: /data}}]}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
"
        );
        namespace.apply(&pod).unwrap();
    }
    for (kind, ..) in KINDS {
        pod_in_phase(namespace, &format!("{prefix}-{kind}"), "Running");
    }
}

/// No write has failed, and they go on.
fn assert_all_write(namespace: &Namespace, prefix: &str) {
    for (kind, ..) in KINDS {
        let name = format!("{prefix}-{kind}");
        let last = || {
            namespace
                .kubectl(&["exec", &name, "--", "tail", "-n", "1", "/data/log"])
                .unwrap()
        };
        let before = last();
        eventually(&format!("{name} writes"), || {
            (last() != before).then_some(())
        });
        let pod = get(namespace, "pod", &name).unwrap();
        assert_eq!(pod["status"]["phase"], "Running", "{pod}");
    }
}

fn grow(namespace: &Namespace, prefix: &str) {
    for (kind, _, _, larger) in KINDS {
        let patch =
            format!(r#"{{"spec": {{"resources": {{"requests": {{"storage": "{larger}"}}}}}}}}"#);
        let name = format!("{prefix}-{kind}");
        namespace
            .kubectl(&["patch", "pvc", &name, "-p", &patch])
            .unwrap();
    }
    for (kind, _, _, larger) in KINDS {
        let name = format!("{prefix}-{kind}");
        eventually(&format!("{name} has grown"), || {
            let claim = get(namespace, "pvc", &name)?;
            (claim["status"]["capacity"]["storage"] == larger).then_some(())
        });
    }
}

fn restore(namespace: &Namespace, name: &str) {
    claim(
        namespace,
        name,
        KINDS[0].1,
        KINDS[0].3,
        Some(&of_snapshot("before")),
    );
    let pod = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  containers: [{{name: main, image: busybox, command: [head, -n, '1', /data/log], volumeMounts: [{{name: data, mountPath: /data}}]}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
"
    );
    namespace.apply(&pod).unwrap();
    pod_in_phase(namespace, name, "Succeeded");
    assert_eq!(namespace.kubectl(&["logs", name]).unwrap().trim(), "1");
}

#[test]
fn volumes_in_use_are_upgraded_to_this_release_and_back() {
    let own = OwnCluster::named(CLUSTER);
    own.run(&["up", "--nodes", "1"]);
    let cluster = TestCluster::named(CLUSTER).unwrap();
    let data = cluster.dev().unwrap().directory().join("weka-sim");
    let site = Site {
        weka: SimulatedWeka::new(Some(data)),
        cluster,
    };
    let kubectl = || site.cluster.command();
    site.weka.apply(kubectl()).unwrap();
    site.weka.wait(kubectl).unwrap();
    site.install(Release::Previous, true);
    site.weka
        .apply_secret(kubectl, "csi-wekafs-api-secret", "csi-wekafs")
        .unwrap();
    site.cluster.apply(CLASSES).unwrap();
    site.cluster
        .apply(&Release::Current.manifest("examples/dynamic_api/storageclass-wekafs-dir-api.yaml"))
        .unwrap();
    let namespace = site.cluster.namespace("upgrade").unwrap();
    begin(&namespace, "old");
    snapshot(&namespace, "before", "old-host", "my-snapshot-class");
    eventually("the snapshot is ready", || {
        let snapshot = get(&namespace, "volumesnapshot", "before")?;
        (snapshot["status"]["readyToUse"] == true).then_some(())
    });

    site.install(Release::Current, true);
    assert_all_write(&namespace, "old");
    grow(&namespace, "old");
    restore(&namespace, "restored");
    begin(&namespace, "new");

    site.install(Release::Previous, false);
    for prefix in ["old", "new"] {
        assert_all_write(&namespace, prefix);
    }
    grow(&namespace, "new");
    restore(&namespace, "restored-again");

    // Everything goes, whoever made it.
    namespace
        .kubectl(&["delete", "pods,volumesnapshots,pvc", "--all"])
        .unwrap();
    eventually("no volume is left", || {
        let left = site
            .cluster
            .kubectl(&[
                "get",
                "pv,volumesnapshotcontents,volumeattachments",
                "-o",
                "name",
            ])
            .ok()?;
        left.trim().is_empty().then_some(())
    });

    delete_manifests(&site.cluster, &root().join("deploy"));
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    charts::upgrade_and_go_back(&site.cluster, scratch.path());
}
