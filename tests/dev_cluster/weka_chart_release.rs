//! A Helm release of WEKA's chart on a cluster of its own, with a simulated array, and what the guide has people type about it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use devcluster::testing::TestCluster;
use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::manifest::Manifest;
use stowage_chart::render::{Identity, no_cluster, render};
use stowage_chart::values::overlay;
use stowage_chart::{from_yaml, to_yaml};
use stowage_tests::OwnCluster;

use super::weka_array::{Array, Driver};

const CLUSTER: &str = "test-weka-chart";
/// The release, its namespace, and the instance that comes of it.
pub const NAME: &str = "csi-wekafs";
pub const PROVISIONER: &str = "csi.weka.io";

const GUIDE: &str = include_str!("../../docs/guides/weka.md");
const HEADING: &str = "## In place of a release of WEKA's chart\n";

/// What WEKA's chart renders, for another release.
const PLUGIN: &str = include_str!("weka_plugin.yaml");
/// WEKA's plugin has a sidecar for them.
const SNAPSHOTS: &str = include_str!("../../deploy/crds/snapshot.storage.k8s.io.yaml");

/// The way to the cluster.
pub fn cluster() -> &'static TestCluster {
    static WAY: OnceLock<TestCluster> = OnceLock::new();
    WAY.get_or_init(|| TestCluster::named(CLUSTER).unwrap())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Values as a release of WEKA's chart has them.
fn values_of_upstream() -> Value {
    json!({
        "legacyVolumeSecretName": "csi-wekafs-legacy", "logLevel": 5, "useJsonLogging": true,
        "controllerPluginTolerations": [{"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"}],
        "controller": {"replicas": 1, "maxConcurrentRequests": 5, "grpcRequestTimeoutSeconds": 60},
        "pluginConfig": {
            "fsGroupPolicy": "File", "allowedOperations": {"snapshotDirectoryVolumes": true},
            "mutuallyExclusiveMountOptions": ["readcache,writecache,coherent,forcedirect", "sync,async", "ro,rw"],
        },
    })
}

/// The release, and all that it needs.
pub struct Site {
    pub own: OwnCluster,
    array: Array,
    pub driver: Driver,
    /// `values.yaml`, and WEKA's chart.
    scratch: tempfile::TempDir,
    /// What WEKA's chart renders for the release.
    pub plugin: String,
}

impl Site {
    /// WEKA's plugin runs.
    pub fn start() -> Self {
        let own = OwnCluster::named(CLUSTER);
        own.run(&["up", "--nodes", "1"]);
        let array = Array::on(cluster());
        array.apply();
        cluster().apply(SNAPSHOTS).unwrap();
        let plugin = PLUGIN
            .replace("RUN", &array.weka.run)
            .replace("weka-taken", NAME)
            .replace("taken.weka.io", PROVISIONER)
            .replace("taken", NAME);
        let site = Self {
            own,
            array,
            driver: Driver::on(cluster(), NAME, PROVISIONER),
            scratch: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            plugin,
        };
        site.install_plugin();
        site.write_values();
        site
    }

    /// Installs WEKA's plugin as Helm does: a chart with nothing but what WEKA's comes to.
    fn install_plugin(&self) {
        let chart = self.scratch.path().join("theirs");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        for (file, text) in [
            (
                "Chart.yaml",
                "{apiVersion: v2, name: csi-wekafsplugin, version: 2.8.8}",
            ),
            ("values.yaml", "{}"),
            ("values.schema.json", "{\"type\": \"object\"}"),
            ("templates/all.yaml", &self.plugin),
        ] {
            std::fs::write(chart.join(file), text).unwrap();
        }
        let chart = chart.display().to_string();
        self.own
            .run(&["chart", "upgrade", NAME, &chart, "--namespace", NAME]);
        for secret in ["secret", "csi-wekafs-legacy"] {
            self.array.apply_secret(secret, NAME);
        }
        self.until_plugin_runs();
    }

    pub fn until_plugin_runs(&self) {
        for workload in [
            "deployment/csi-wekafs-controller",
            "daemonset/csi-wekafs-node",
        ] {
            self.driver
                .kubectl(&["rollout", "status", workload, "--timeout=180s"]);
        }
    }

    /// The values of the release, and those that put stand-ins in place of a Weka client.
    fn write_values(&self) {
        let mut values = values_of_upstream();
        let chart = Chart::load(&root().join("charts/csi-wekafsplugin")).unwrap();
        let rendered = render(&chart, &values, &Identity::new(NAME, NAME), no_cluster()).unwrap();
        let manifest = Manifest::of(&rendered).unwrap();
        let mut instances = manifest
            .objects
            .iter()
            .filter_map(|it| it.0["data"]["instance.yaml"].as_str());
        let instance = instances.next().unwrap();
        let changed = self.array.weka.with_stand_ins(instance, "").unwrap();
        let changed = from_yaml(&changed).unwrap();
        for template in ["driverPerNodeTemplate", "driverControllerTemplate"] {
            overlay(
                &mut values,
                &json!({"spec": {template: changed["spec"][template]}}),
            );
        }
        let file = self.scratch.path().join("values.yaml");
        std::fs::write(file, to_yaml(&values).unwrap()).unwrap();
    }

    /// Types what the guide has in one block of its section; `helm` is `./x chart` here.
    pub fn type_block(&self, number: usize) {
        let (_, section) = GUIDE.split_once(HEADING).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let block = section.split("```sh\n").nth(number).unwrap();
        let lines = block.split("```").next().unwrap().lines();
        for line in lines.map(|it| it.split('#').next().unwrap()) {
            let words: Vec<_> = line.split_whitespace().collect();
            match words.as_slice() {
                // Its values are those that `write_values` has written.
                ["helm", "get", "values", ..] => {}
                ["helm", words @ ..] => self.helm(words),
                ["kubectl", words @ ..] => {
                    cluster().kubectl(words).unwrap();
                }
                _ => panic!("nobody can run `{line}`"),
            }
        }
    }

    fn helm(&self, words: &[&str]) {
        let words = words.iter().map(|word| match *word {
            "values.yaml" => self.scratch.path().join(word).display().to_string(),
            path if path.starts_with("charts/") => root().join(path).display().to_string(),
            word => word.to_owned(),
        });
        let words: Vec<_> = words.collect();
        let words = words.iter().map(String::as_str);
        self.own
            .run(&["chart"].into_iter().chain(words).collect::<Vec<_>>());
    }
}
