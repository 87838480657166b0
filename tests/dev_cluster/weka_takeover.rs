//! An installation of WEKA's plugin with volumes of every kind is taken over by the commands that the check prints, while pods
//! write, and comes back: what weka.md describes.

mod volumes;

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::copies::{claim, install_snapshots};
use stowage_tests::deployed::install_operator;
use stowage_tests::{STOWAGE_IMAGE, cluster, eventually, get, text};

use self::volumes::{LOOK, RESTORED, class, delete_static_volume};
use super::claims::Pod;
use super::weka_array::{Array, Driver};
use super::weka_pair::NODES;

/// The plugin as its chart renders it.
const PLUGIN: &str = include_str!("weka_plugin.yaml");

/// Its namespace, and the name of the instance that takes its place.
const PLACE: &str = "weka-taken";
const PROVISIONER: &str = "taken.weka.io";

/// All that writes: a volume of each kind, and a copy of a directory, which is one in a snapshot.
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
