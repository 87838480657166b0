//! The whole life of volumes and their copies: bind, write, expand, snapshot, restore, clone, group, and back to nothing
//! in whatever order a person deletes things.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::testing::{Namespace, TestCluster};
use stowage_tests::copies::{
    SMALL, claim, delete_classes, everything_left, expand, group_snapshot, install_snapshots, look,
    make_classes, of_claim, of_snapshot, ready, snapshot, start_writer, written,
};
use stowage_tests::{cluster, eventually, text};

use super::claims::NODE;
use super::driver_on_node::DriverOnNode;
use super::shape::Shape;

/// The driver's loop devices on this machine.
fn loops(state: &Path) -> Vec<String> {
    let list = ["--list", "--noheadings", "--output", "NAME,BACK-FILE"];
    let output = Command::new("losetup").args(list).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let state = state.display().to_string();
    let ours = text.lines().filter(|line| line.contains(&state));
    ours.map(str::to_owned).collect()
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
    let before = written(namespace, "writer");
    snapshot(namespace, "monday", "data", &driver.name);
    let monday = ready(namespace, "volumesnapshot", "monday");
    let after = written(namespace, "writer");
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
        let left = everything_left(cluster, &driver.name)?;
        (own.is_empty() && left.is_empty()).then_some(())
    });
    assert_eq!(driver.files(), Vec::<PathBuf>::new());
    assert_eq!(loops(&driver.state()), Vec::<String>::new());
}
