//! The whole life of volumes and their copies: bind, write, expand, snapshot, restore, clone, group, and back to nothing
//! in whatever order a person deletes things.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::testing::{Namespace, TestCluster};
use stowage_tests::{cluster, eventually, pod_in_phase, ready_pods, text};

use self::objects::{
    SAMPLE_NAME, SMALL, claim, delete_classes, exec, expand, group_snapshot, install_snapshots,
    left, look, make_classes, of_claim, of_snapshot, ready, snapshot,
};
use super::claims::{NODE, Pod};
use super::driver_on_node::DriverOnNode;
use super::shape::Shape;

mod objects;

/// Something to compare, and then one number after the other for as long as the pod lives.
const WRITE: &str = "cd /data; dd if=/dev/urandom of=noise bs=1M count=8 2>/dev/null; \
                     md5sum noise > sums; sync; \
                     i=0; while true; do i=$((i+1)); echo $i >> log; usleep 20000; done";

/// The driver's loop devices on this machine.
fn loops(state: &Path) -> Vec<String> {
    let list = ["--list", "--noheadings", "--output", "NAME,BACK-FILE"];
    let output = Command::new("losetup").args(list).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let state = state.display().to_string();
    let ours = text.lines().filter(|line| line.contains(&state));
    ours.map(str::to_owned).collect()
}

/// Everything in the cluster that names the driver, but for what was installed.
fn everything_left(cluster: &TestCluster, driver: &str) -> Vec<String> {
    [
        ("pv", ".spec.csi.driver"),
        ("volumesnapshotcontent", ".spec.driver"),
        ("volumegroupsnapshotcontent", ".spec.driver"),
        ("volumeattachment", ".spec.attacher"),
    ]
    .into_iter()
    .flat_map(|(kind, path)| left(cluster, kind, path, driver))
    .collect()
}

/// Classes first, then what is in use, sources before their copies, and contents and members beside their owners.
fn delete_in_a_hostile_order(
    cluster: &TestCluster,
    namespace: &Namespace,
    driver: &str,
    (content, member): (&str, &str),
) {
    delete_classes(cluster, driver);
    let delete = |kind_and_names: &[&str]| {
        let words = [&["delete", "--wait=false"], kind_and_names].concat();
        namespace.kubectl(&words).unwrap();
    };
    delete(&["pvc", "data", "logs", "restored", "copy", "member"]);
    delete(&["pod", "writer", "logger"]);
    eventually("the claims are gone, their snapshots are not", || {
        let claims = namespace.kubectl(&["get", "pvc", "-o", "name"]).ok()?;
        claims.is_empty().then_some(())
    });
    ready(namespace, "volumesnapshot", "monday");
    delete(&["volumesnapshot", "monday", member]);
    // It may be gone by now.
    let _ = cluster.kubectl(&["delete", "volumesnapshotcontent", content, "--wait=false"]);
    delete(&["volumegroupsnapshot", "nightly"]);
}

/// Starts a pod that writes, and waits until it does.
fn start_writer(namespace: &Namespace, pod: &str, claim: &str, node: &str) {
    Pod::new(pod, claim, WRITE)
        .scheduled_to(node)
        .start(namespace);
    pod_in_phase(namespace, pod, "Running");
    eventually("the pod writes", || {
        let log = namespace.kubectl(&["exec", pod, "--", "cat", "/data/log"]);
        log.ok().filter(|log| !log.is_empty())
    });
}

#[test]
fn a_volume_grows_is_copied_in_every_way_and_leaves_nothing() {
    let cluster = cluster();
    install_snapshots(cluster);
    let namespace = &cluster.namespace("life").unwrap();
    let dev = cluster.dev().unwrap();
    let driver = DriverOnNode::start(dev, namespace, NODE, Shape::OneController);
    make_classes(cluster, &driver.name);
    let class = format!("{}-xfs", driver.name);

    // Bind and write.
    claim(namespace, "data", &class, SMALL, None);
    claim(namespace, "logs", &class, SMALL, None);
    start_writer(namespace, "writer", "data", NODE);
    start_writer(namespace, "logger", "logs", NODE);

    // Expand, and snapshot while the pod writes.
    let (small, grown) = expand(namespace, "data", "writer", "420Mi");
    assert!(grown > small + 90 * 1024, "{small} -> {grown} KiB");
    let lines = || {
        exec(namespace, "writer", "wc -l < /data/log")
            .parse::<u64>()
            .unwrap()
    };
    let before = lines();
    snapshot(namespace, "monday", "data", &driver.name);
    let monday = ready(namespace, "volumesnapshot", "monday");
    let after = lines();
    assert_eq!(monday["status"]["restoreSize"], "420Mi");

    // Restore into more room, and clone.
    claim(
        namespace,
        "restored",
        &class,
        "520Mi",
        Some(&of_snapshot("monday")),
    );
    let restored = look(namespace, "restored", NODE);
    assert_eq!(restored.sums, "noise: OK");
    assert_eq!(restored.last, restored.lines, "no number is missing");
    let moment = before..=after;
    assert!(
        moment.contains(&restored.last),
        "{} is not in {moment:?}",
        restored.last
    );
    assert!(
        restored.blocks > grown + 90 * 1024,
        "{grown} -> {} KiB",
        restored.blocks
    );
    claim(namespace, "copy", &class, "420Mi", Some(&of_claim("data")));
    let copy = look(namespace, "copy", NODE);
    assert_eq!(copy.sums, "noise: OK");
    assert_eq!((copy.last, copy.blocks), (copy.lines, grown));
    assert!(copy.last > restored.last, "the clone is of a later moment");

    // Both at one moment.
    group_snapshot(namespace, "nightly", &["data", "logs"], &driver.name);
    ready(namespace, "volumegroupsnapshot", "nightly");
    let members = eventually("both members are ready", || {
        let path = "jsonpath={range .items[?(@.status.volumeGroupSnapshotName==\"nightly\")]}\
                    {.metadata.name} {.status.readyToUse}{'\\n'}{end}";
        let all = namespace
            .kubectl(&["get", "volumesnapshot", "-o", path])
            .ok()?;
        let ready = all.lines().filter_map(|line| line.strip_suffix(" true"));
        let ready: Vec<_> = ready.map(str::to_owned).collect();
        (ready.len() == 2).then_some(ready)
    });
    claim(
        namespace,
        "member",
        &class,
        "420Mi",
        Some(&of_snapshot(&members[0])),
    );
    assert_eq!(look(namespace, "member", NODE).sums, "noise: OK");

    let content = text(&monday["status"]["boundVolumeSnapshotContentName"]);
    delete_in_a_hostile_order(cluster, namespace, &driver.name, (content, &members[1]));
    eventually("nothing is left in the cluster", || {
        let kinds = "volumesnapshot,volumegroupsnapshot,pvc";
        let own = namespace.kubectl(&["get", kinds, "-o", "name"]).ok()?;
        let left = everything_left(cluster, &driver.name);
        (own.is_empty() && left.is_empty()).then_some(())
    });
    assert_eq!(driver.files(), Vec::<PathBuf>::new());
    assert_eq!(loops(&driver.state()), Vec::<String>::new());
}

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
    cluster.dev().unwrap();
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
        everything_left(cluster, &driver).is_empty().then_some(())
    });
    delete_classes(cluster, &driver);
}
