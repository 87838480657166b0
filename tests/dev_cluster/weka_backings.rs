//! Volumes that are directories, filesystems and snapshots, in pods: snapshots of them while they are written, larger
//! restores, clones, growth, and what is left of it all.

use std::path::Path;

use devcluster::testing::Namespace;
use stowage_tests::copies::{
    claim, install_snapshots, look, of_claim, of_snapshot, ready, snapshot, start_writer,
};
use stowage_tests::{cluster, eventually, get, text};

use super::weka_array::{Weka, weka};
use super::weka_pair::NODES;
use super::weka_volumes::remove;

const DIRECTORIES: &str =
    include_str!("../../examples/dynamic_api/storageclass-wekafs-dir-api.yaml");
const FILESYSTEMS: &str =
    include_str!("../../examples/dynamic_filesystem/storageclass-wekafs-fs-api.yaml");
const SNAPSHOTS: &str =
    include_str!("../../examples/dynamic_snapshot/storageclass-wekafs-snap-api.yaml");
const SNAPSHOT_CLASS: &str = include_str!("../../examples/snapshots/snapshotclass-wekafs.yaml");

/// What volumes are, their class in the examples, and what the handles of their copies begin with.
const KINDS: [(&str, &str, &str); 3] = [
    ("dir", DIRECTORIES, "weka/v2/default:"),
    ("fs", FILESYSTEMS, "weka/v2/csivol-"),
    ("snap", SNAPSHOTS, "weka/v2/snapshot-volumes:"),
];

/// A class of the examples under a name of the test's own.
fn apply_class(namespace: &Namespace, word: &str, example: &str) -> String {
    let name = format!("{}-{word}", namespace.name());
    let (before, rest) = example.split_once("metadata:\n  name: ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    let manifest = format!("{before}metadata:\n  name: {name}\n{after}");
    namespace.apply(&manifest).unwrap();
    name
}

/// The filesystems and snapshots that the array has on its disks, but for the seeds of filesystems.
fn objects(weka: &Weka) -> Vec<String> {
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap())
    };
    let filesystems = weka.array.weka.data.join("filesystems");
    let mut all = Vec::new();
    for filesystem in names(&filesystems) {
        let snapshots = names(&filesystems.join(&filesystem).join("snapshots"));
        all.extend(snapshots.filter(|name| name.contains('-') || name.len() != 12));
        all.push(filesystem);
    }
    all.sort();
    all
}

fn grow(namespace: &Namespace, claim: &str, size: &str) {
    let patch = format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#);
    namespace
        .kubectl(&["patch", "pvc", claim, "-p", &patch])
        .unwrap();
    eventually(&format!("claim {claim} has grown"), || {
        let claim = get(namespace, "pvc", claim)?;
        (claim["status"]["capacity"]["storage"] == size).then_some(())
    });
}

#[test]
fn volumes_of_every_backing_are_snapshotted_restored_larger_cloned_and_leave_nothing() {
    let weka = weka();
    install_snapshots(cluster());
    let namespace = cluster().namespace("weka-backings").unwrap();
    let before = objects(weka);
    let snapshot_class = apply_class(&namespace, "snapshots", SNAPSHOT_CLASS);
    let classes = KINDS.map(|(kind, example, _)| {
        let class = apply_class(&namespace, kind, example);
        claim(&namespace, kind, &class, "32Mi", None);
        class
    });
    for (kind, ..) in KINDS {
        start_writer(&namespace, &format!("writer-{kind}"), kind, NODES[0]);
        snapshot(&namespace, &format!("of-{kind}"), kind, &snapshot_class);
    }
    for ((kind, _, handle), class) in KINDS.iter().zip(&classes) {
        let taken = ready(&namespace, "volumesnapshot", &format!("of-{kind}"));
        assert_eq!(taken["status"]["restoreSize"], "32Mi");
        let (restored, clone) = (format!("restored-{kind}"), format!("clone-{kind}"));
        let source = of_snapshot(&format!("of-{kind}"));
        claim(&namespace, &restored, class, "64Mi", Some(&source));
        claim(&namespace, &clone, class, "32Mi", Some(&of_claim(kind)));
        let old = look(&namespace, &restored, NODES[1]);
        let new = look(&namespace, &clone, NODES[1]);
        assert_eq!(
            (&*old.sums, &*new.sums),
            ("noise: OK", "noise: OK"),
            "{kind}"
        );
        // The last line may be on its way when a writer is copied.
        assert!(
            new.last > old.last && new.lines >= old.lines,
            "{kind}: the clone is of a later moment"
        );
        let volume = get(&namespace, "pvc", &restored).unwrap();
        let volume = get(&namespace, "pv", text(&volume["spec"]["volumeName"])).unwrap();
        let own = text(&volume["spec"]["csi"]["volumeHandle"]);
        assert!(
            own.starts_with(handle) && own.contains(':'),
            "{kind}: {own}"
        );
        grow(&namespace, &restored, "96Mi");
        grow(&namespace, kind, "48Mi");
    }
    namespace.kubectl(&["delete", "pod", "--all"]).unwrap();
    namespace
        .kubectl(&["delete", "volumesnapshot", "--all"])
        .unwrap();
    let claims = KINDS.map(|(kind, ..)| {
        [
            kind.to_owned(),
            format!("restored-{kind}"),
            format!("clone-{kind}"),
        ]
    });
    let claims: Vec<&str> = claims.iter().flatten().map(String::as_str).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    remove(&namespace, &claims, &classes);
    eventually("the array has nothing of it left", || {
        (objects(weka) == before).then_some(())
    });
    namespace
        .kubectl(&["delete", "volumesnapshotclass", &snapshot_class])
        .unwrap();
}
