//! An installation of WEKA's plugin with volumes of every kind is taken over by the commands that the check prints, while pods
//! write, and comes back: what weka.md describes.

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::copies::{claim, install_snapshots, of_claim, of_snapshot, ready, snapshot};
use stowage_tests::deployed::install_operator;
use stowage_tests::{STOWAGE_IMAGE, cluster, eventually, get, pod_in_phase, text};

use super::claims::Pod;
use super::weka_array::{Array, Driver};
use super::weka_pair::NODES;
use super::weka_volumes::ROLES;

/// The plugin as its chart renders it.
const PLUGIN: &str = include_str!("weka_plugin.yaml");

/// Its namespace, and the name of the instance that takes its place.
const PLACE: &str = "weka-taken";
const PROVISIONER: &str = "taken.weka.io";

const TRASH: &str = ".__internal__wekafs-async-delete";

/// Kinds of volumes, and what the parameters of their classes are.
const KINDS: [(&str, &str, bool); 4] = [
    ("dir", "volumeType: dir/v1, filesystemName: default", true),
    ("fs", "filesystemGroupName: default", true),
    ("snap", "filesystemName: snapshots", true),
    // Its size is written at its directory: this class knows no API.
    (
        "xattr",
        "volumeType: dir/v1, filesystemName: default",
        false,
    ),
];

/// A directory that an administrator made, and its PersistentVolume.
const BY_HAND: &str = "by-hand";
const STATIC_VOLUME: &str = "weka-taken-static";

/// A snapshot that the plugin takes, and what is restored from it when the plugin is gone.
const EARLIER: &str = "earlier";
const RESTORED: &str = "restored-earlier";

/// Whether a volume has what a writer wrote.
const LOOK: &str = "test -s /data/log && echo whole";

/// One number after the other: where a write fails, its number is missing.
const WRITE: &str =
    "cd /data; rm -f log; i=0; while true; do i=$((i+1)); echo $i >> log; usleep 50000; done";

/// All that writes: the volumes above, and a copy of a directory, which is one in a snapshot.
const WRITERS: [&str; 5] = ["dir", "fs", "snap", "xattr", "hybrid"];

struct Taken<'a> {
    array: Array,
    plugin: String,
    pods: &'a Namespace<'a>,
    driver: Driver,
}

impl Taken<'_> {
    /// Starts the plugin, or starts it again.
    fn run_plugin(&self) {
        cluster().apply(&self.plugin).unwrap();
        for workload in ["deployment/taken-controller", "daemonset/taken-node"] {
            let rollout = ["rollout", "status", workload, "--timeout=180s"];
            self.driver.kubectl(&rollout);
        }
    }

    fn make_classes(&self) {
        for (kind, parameters, has_secret) in KINDS {
            let name = format!("{PLACE}-{kind}");
            let secrets = ROLES.map(|role| {
                let key = format!("csi.storage.k8s.io/{role}-secret");
                format!(", {key}-name: secret, {key}-namespace: {PLACE}")
            });
            let secrets = if has_secret {
                secrets.concat()
            } else {
                String::new()
            };
            let class = format!(
                "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {name}}}\n\
                 provisioner: {PROVISIONER}\nallowVolumeExpansion: true\nparameters: {{{parameters}{secrets}}}\n"
            );
            self.pods.apply(&class).unwrap();
        }
        let secret = "csi.storage.k8s.io/snapshotter-secret";
        let class = format!(
            "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {{name: {PLACE}}}\n\
             driver: {PROVISIONER}\ndeletionPolicy: Delete\n\
             parameters: {{{secret}-name: secret, {secret}-namespace: {PLACE}}}\n"
        );
        self.pods.apply(&class).unwrap();
    }

    /// Has the plugin make volumes of every kind, and pods write to all of them.
    fn fill(&self) {
        for (kind, ..) in KINDS {
            claim(self.pods, kind, &class(kind), "32Mi", None);
        }
        for (number, (kind, ..)) in KINDS.iter().enumerate() {
            self.start_writer(kind, NODES[number % 2]);
        }
        claim(
            self.pods,
            "hybrid",
            &class("dir"),
            "32Mi",
            Some(&of_claim("dir")),
        );
        self.start_writer("hybrid", NODES[0]);
        for writer in WRITERS {
            pod_in_phase(self.pods, writer, "Running");
        }
        // What the plugin has not removed yet when it is stopped.
        let handle = self.handle("dir");
        let volume = handle.strip_prefix("dir/v1/default/").unwrap();
        let files = self.array.files(volume).unwrap();
        let root = files.ancestors().nth(2).unwrap().to_owned();
        std::fs::create_dir_all(root.join(TRASH).join("left/below")).unwrap();
        std::fs::write(root.join(TRASH).join("left/below/file"), "data").unwrap();
        std::fs::create_dir_all(root.join(BY_HAND)).unwrap();
        std::fs::write(root.join(BY_HAND).join("file"), "was there\n").unwrap();
        self.make_static_volume();
    }

    /// A volume that no provisioner made: its claim is called like its directory.
    fn make_static_volume(&self) {
        let manifest = format!(
            "\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {STATIC_VOLUME}}}
spec:
  storageClassName: ''
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  capacity: {{storage: 32Mi}}
  csi: {{driver: {PROVISIONER}, volumeHandle: dir/v1/default/{BY_HAND}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {BY_HAND}}}
spec:
  storageClassName: ''
  volumeName: {STATIC_VOLUME}
  accessModes: [ReadWriteMany]
  resources: {{requests: {{storage: 32Mi}}}}
"
        );
        self.pods.apply(&manifest).unwrap();
    }

    /// Has the plugin take a snapshot.
    fn take_snapshot(&self) {
        snapshot(self.pods, EARLIER, "dir", PLACE);
        ready(self.pods, "volumesnapshot", EARLIER);
    }

    fn start_writer(&self, claim: &str, node: &str) {
        Pod::new(claim, claim, WRITE)
            .scheduled_to(node)
            .start(self.pods);
    }

    /// The handle of a claim's volume.
    fn handle(&self, claim: &str) -> String {
        eventually(&format!("claim {claim} is bound"), || {
            let claim = get(self.pods, "pvc", claim)?;
            let volume = get(self.pods, "pv", text(&claim["spec"]["volumeName"]))?;
            Some(text(&volume["spec"]["csi"]["volumeHandle"]).to_owned())
        })
    }

    /// Each pod has written since this was last asked, and not one write has failed.
    fn assert_all_write(&self, since: &mut [u64; WRITERS.len()]) {
        for (writer, since) in WRITERS.iter().zip(since) {
            let look = "cd /data; tail -n 1 log; wc -l < log";
            let (last, lines) = eventually(&format!("{writer} writes"), || {
                let said = self
                    .pods
                    .kubectl(&["exec", writer, "--", "sh", "-c", look])
                    .ok()?;
                let mut numbers = said
                    .lines()
                    .filter_map(|line| line.trim().parse::<u64>().ok());
                let numbers = (numbers.next()?, numbers.next()?);
                (numbers.0 > *since).then_some(numbers)
            });
            // One may be on its way while this is read.
            assert!(
                lines >= last && lines <= last + 2,
                "{writer}: {lines} lines up to {last}"
            );
            *since = last;
        }
    }

    /// What the check says: the report, and its exit code.
    fn check(&self) -> (Value, i64) {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: check}}\nspec:\n  restartPolicy: Never\n  serviceAccountName: checker\n  \
             containers:\n  - name: main\n    image: {STOWAGE_IMAGE}\n    args: [takeover, weka, --check, --driver-name={PROVISIONER}, \
             --instance={PLACE}/{PLACE}, --output=json]\n"
        );
        self.pods.apply(&pod).unwrap();
        let ended = eventually("the check ends", || {
            let pod = get(self.pods, "pod", "check")?;
            pod.pointer("/status/containerStatuses/0/state/terminated/exitCode")?
                .as_i64()
        });
        let said = self.pods.kubectl(&["logs", "check"]).unwrap();
        self.pods.kubectl(&["delete", "pod", "check"]).unwrap();
        let report = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        (report, ended)
    }

    /// Types what the check prints.
    fn take_over(&self, report: &Value) {
        let manifest = report["manifest"].as_array().unwrap();
        let manifest: Vec<_> = manifest.iter().map(Value::to_string).collect();
        let manifest = manifest.join("\n---\n");
        let manifest = self.array.weka.with_stand_ins(&manifest, "").unwrap();
        // Several documents, which JSON cannot be.
        let manifest = format!("---\n{manifest}");
        let steps = report["steps"].as_array().unwrap().iter();
        let commands = steps.flat_map(|step| step["commands"].as_array().unwrap());
        for command in commands.map(text) {
            let words: Vec<_> = command.split(' ').skip(1).collect();
            if words == ["apply", "-f", "weka.yaml"] {
                cluster().apply(&manifest).unwrap();
            } else {
                cluster().kubectl(&words).unwrap();
            }
        }
        self.driver.wait();
    }

    /// What people do with volumes: of each of the plugin's that the array can copy.
    fn use_volumes(&self) {
        let kinds = ["dir", "fs", "snap", "hybrid"];
        for kind in kinds {
            snapshot(self.pods, &format!("of-{kind}"), kind, PLACE);
            claim(
                self.pods,
                &format!("clone-{kind}"),
                &class(kind),
                "32Mi",
                Some(&of_claim(kind)),
            );
        }
        for kind in kinds {
            ready(self.pods, "volumesnapshot", &format!("of-{kind}"));
            let source = of_snapshot(&format!("of-{kind}"));
            claim(
                self.pods,
                &format!("restored-{kind}"),
                &class(kind),
                "64Mi",
                Some(&source),
            );
        }
        let source = of_snapshot(EARLIER);
        claim(self.pods, RESTORED, &class("dir"), "64Mi", Some(&source));
        for kind in WRITERS {
            let size = r#"{"spec": {"resources": {"requests": {"storage": "48Mi"}}}}"#;
            self.pods
                .kubectl(&["patch", "pvc", kind, "-p", size])
                .unwrap();
        }
        let copies = kinds.map(|kind| [format!("restored-{kind}"), format!("clone-{kind}")]);
        let copies = [copies.as_flattened(), &[RESTORED.to_owned()]].concat();
        for copy in &copies {
            let look = Pod::new(copy, copy, LOOK);
            look.scheduled_to(NODES[1]).start(self.pods);
        }
        let look = Pod::new(BY_HAND, BY_HAND, "cat /data/file");
        assert_eq!(look.scheduled_to(NODES[0]).run(self.pods), "was there\n");
        for copy in &copies {
            pod_in_phase(self.pods, copy, "Succeeded");
        }
        for kind in WRITERS {
            eventually(&format!("claim {kind} has grown"), || {
                let claim = get(self.pods, "pvc", kind)?;
                (claim["status"]["capacity"]["storage"] == "48Mi").then_some(())
            });
        }
        // Whoever makes a directory in a filesystem looks into its trash first.
        claim(self.pods, "new", &class("dir"), "16Mi", None);
        eventually("the trash of the plugin is empty", || {
            self.array
                .files(&format!("{TRASH}/left"))
                .is_none()
                .then_some(())
        });
    }

    /// The way back, as the guide has it; Helm is `kubectl apply` here.
    fn go_back(&self) {
        self.driver.kubectl(&["delete", "cdd", PLACE]);
        let labels = format!("{PLACE}-node-labels");
        cluster()
            .kubectl(&["delete", "clusterrolebinding,clusterrole", &labels])
            .unwrap();
        self.driver
            .kubectl(&["delete", "rolebinding", "csi-operator-secrets"]);
        self.run_plugin();
    }

    /// Deletes all volumes, by whoever runs the driver now.
    fn remove(&self) {
        self.pods.kubectl(&["delete", "pod", "--all"]).unwrap();
        self.pods
            .kubectl(&["delete", "volumesnapshot", "--all"])
            .unwrap();
        self.pods.kubectl(&["delete", "pvc", "--all"]).unwrap();
        delete_static_volume();
        eventually("no volume is left", || {
            let volumes =
                cluster().kubectl(&["get", "pv", "-o", "jsonpath={.items[*].spec.csi.driver}"]);
            (!volumes.ok()?.contains(PROVISIONER)).then_some(())
        });
        for (kind, ..) in KINDS {
            cluster()
                .kubectl(&["delete", "storageclass", &class(kind)])
                .unwrap();
        }
        cluster()
            .kubectl(&["delete", "volumesnapshotclass", PLACE])
            .unwrap();
    }
}

fn class(kind: &str) -> String {
    let kind = if kind == "hybrid" { "dir" } else { kind };
    format!("{PLACE}-{kind}")
}

/// Nobody deletes it when its claim is gone.
fn delete_static_volume() {
    let delete = ["delete", "pv", STATIC_VOLUME];
    let how = ["--ignore-not-found", "--wait=false"];
    let _ = cluster().kubectl(&[&delete[..], &how].concat());
}

/// Cluster-wide objects of the plugin, which no namespace takes along.
struct OfCluster;

impl Drop for OfCluster {
    fn drop(&mut self) {
        let all = [
            "clusterrole/taken-controller",
            "clusterrole/taken-node",
            "clusterrolebinding/taken-controller",
            "clusterrolebinding/taken-node",
            "clusterrolebinding/weka-taken-checker",
            "csidriver/taken.weka.io",
        ];
        let words = [&["delete", "--ignore-not-found"], &all[..]].concat();
        let _ = cluster().kubectl(&words);
        delete_static_volume();
        let _ = cluster().kubectl(&["delete", "namespace", PLACE, "--ignore-not-found"]);
    }
}

#[test]
fn an_installation_of_wekas_plugin_is_taken_over_while_pods_write_and_comes_back() {
    install_operator(cluster());
    install_snapshots(cluster());
    let array = Array::named("weka-taken-array", "client", "stowage-sim-taken");
    array.apply();
    array.ask(
        "make-filesystem",
        "wget -qO- --header \"$json\" --header \"$authorized\" --post-data \
         '{\"name\":\"snapshots\",\"group_name\":\"default\",\"total_capacity\":4294967296}' $api/fileSystems || echo it is there",
    );
    let pods = cluster().namespace("weka-taken-pods").unwrap();
    let _of_cluster = OfCluster;
    cluster().kubectl(&["create", "namespace", PLACE]).unwrap();
    let taken = Taken {
        plugin: PLUGIN.replace("RUN", &array.weka.run),
        array,
        pods: &pods,
        driver: Driver::named(PLACE, PROVISIONER),
    };
    taken.array.apply_secret("secret", PLACE);
    taken.run_plugin();
    taken.make_classes();
    taken.fill();
    let handles = WRITERS.map(|writer| taken.handle(writer));
    assert!(handles[4].contains("//csi-volumes/"), "{}", handles[4]);
    let mut written = [0; WRITERS.len()];
    taken.assert_all_write(&mut written);
    taken.take_snapshot();

    pods.kubectl(&["create", "serviceaccount", "checker"])
        .unwrap();
    let account = format!("--serviceaccount={}:checker", pods.name());
    let bind = [
        "create",
        "clusterrolebinding",
        "weka-taken-checker",
        "--clusterrole=cluster-admin",
        &account,
    ];
    cluster().kubectl(&bind).unwrap();
    let (report, code) = taken.check();
    assert_eq!((code, &report["clear"]), (0, &true.into()), "{report:#}");
    taken.take_over(&report);
    assert_eq!(WRITERS.map(|writer| taken.handle(writer)), handles);
    taken.assert_all_write(&mut written);
    taken.use_volumes();
    taken.assert_all_write(&mut written);

    taken.go_back();
    assert_eq!(WRITERS.map(|writer| taken.handle(writer)), handles);
    taken.assert_all_write(&mut written);
    claim(&pods, "back", &class("dir"), "16Mi", None);
    let back = Pod::new("back", "back", "echo back > /data/file && cat /data/file");
    assert_eq!(back.scheduled_to(NODES[0]).run(&pods), "back\n");
    let again = Pod::new("again", RESTORED, LOOK);
    assert_eq!(again.scheduled_to(NODES[1]).run(&pods), "whole\n");
    taken.remove();
}
