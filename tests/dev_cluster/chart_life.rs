//! The life of a chart: installed, upgraded, refused, rolled back, kept while it is in use, uninstalled.

use std::fs;
use std::path::Path;

use devcluster::testing::{Namespace, TestCluster};
use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::release::{Kubectl, Revision};
use stowage_chart::render::Identity;
use stowage_tests::{STOWAGE_IMAGE, eventually, text, until_available, until_no_volume_is_left};

use super::charts::{OF_RELEASE, assert_writes, stop_writer};

/// What people do with a chart, in the order of its life.
pub struct Helm<'a> {
    pub cluster: &'a TestCluster,
    pub kubectl: Kubectl,
    pub chart: Chart,
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

    pub fn installed(&self) -> Revision {
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
    pub fn upgraded(&self, old: &Revision, directory: &Path) -> Revision {
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

    pub fn refuses_what_is_wrong(&self, current: &Revision) {
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

    pub fn rolled_back(&self, current: &Revision, target: &Revision) -> Revision {
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

    pub fn keeps_what_is_in_use(&self, release: &Revision, namespace: &Namespace) {
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

    pub fn uninstalled(&self, release: &Revision) {
        // Its hook waits for a minute here, and pods have been seen that took longer to go: then it says so, and one uninstalls again.
        eventually("the release is uninstalled", || {
            match self.kubectl.uninstall(release) {
                Ok(()) => Some(()),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("is still there"), "{error}");
                    None
                }
            }
        });
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
