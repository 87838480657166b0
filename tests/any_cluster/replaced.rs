//! A manifest in upstream's style whose sidecars were replaced by ours, as the guide tells.

use devcluster::testing::TestCluster;
use stowage_tests::copies::{
    SAMPLE_NAME, SMALL, claim, delete_classes, everything_left, expand, install_snapshots, look,
    make_classes, of_snapshot, ready, snapshot, start_writer,
};
use stowage_tests::{cluster, eventually, ready_pods, text};

/// The manifest of the guide, under a driver's name of its own. Taken away again however the test ends.
struct Replaced<'a> {
    cluster: &'a TestCluster,
    namespace: &'a str,
    file: tempfile::NamedTempFile,
}

impl<'a> Replaced<'a> {
    fn apply(cluster: &'a TestCluster, namespace: &'a str, driver: &str) -> Self {
        let manifest = include_str!("../../deploy/without-operator/hostpath-upstream-style.yaml");
        let manifest = manifest
            .replace("namespace: storage", &format!("namespace: {namespace}"))
            // The account keeps its name: it is its namespace's own.
            .replace("csi-hostpathplugin", "csi-plugin")
            .replace(SAMPLE_NAME, driver);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), manifest).unwrap();
        let replaced = Self {
            cluster,
            namespace,
            file,
        };
        replaced.kubectl("apply", &[]).unwrap();
        replaced
    }

    fn kubectl(&self, verb: &str, more: &[&str]) -> devcluster::error::Result<String> {
        let path = self.file.path().to_str().unwrap();
        let arguments = [verb, "--namespace", self.namespace, "-f", path];
        self.cluster.kubectl(&[&arguments[..], more].concat())
    }
}

impl Drop for Replaced<'_> {
    fn drop(&mut self) {
        let _ = self.kubectl("delete", &["--ignore-not-found", "--wait=false"]);
    }
}

#[test]
fn a_manifest_in_upstreams_style_works_with_the_sidecars_replaced() {
    let cluster = cluster();
    install_snapshots(cluster);
    let namespace = &cluster.namespace("replaced").unwrap();
    let driver = format!("{}.stowage.dev", namespace.name());
    let _replaced = Replaced::apply(cluster, namespace.name(), &driver);
    make_classes(cluster, &driver);
    let pods = ready_pods(namespace, "app=csi-plugin", 1);
    let node = text(&pods[0]["spec"]["nodeName"]);

    claim(namespace, "data", &driver, SMALL, None);
    start_writer(namespace, "writer", "data", node);
    let (small, grown) = expand(namespace, "data", "writer", "420Mi");
    assert!(grown > small + 90 * 1024, "{small} -> {grown} KiB");
    snapshot(namespace, "monday", "data", &driver);
    ready(namespace, "volumesnapshot", "monday");
    claim(
        namespace,
        "restored",
        &driver,
        "420Mi",
        Some(&of_snapshot("monday")),
    );
    assert_eq!(look(namespace, "restored", node).sums, "noise: OK");

    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    namespace
        .kubectl(&["delete", "volumesnapshot", "monday"])
        .unwrap();
    namespace.kubectl(&["delete", "pvc", "--all"]).unwrap();
    eventually("nothing is left in the cluster", || {
        everything_left(cluster, &driver)?.is_empty().then_some(())
    });
    delete_classes(cluster, &driver);
}
