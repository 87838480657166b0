//! Whole filesystems are mounted for the driver alone: who shares the machine's mounts sees volumes and nothing more.

use std::path::{Path, PathBuf};
use std::process::Command;

use devcluster::isolated;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;

use crate::cluster::Cluster;
use crate::rig::{GIB, Rig};

const MODE: Mode = Mode::MultiNodeMultiWriter;

isolated! {
    async fn who_shares_the_mounts_of_the_machine_sees_volumes_and_no_filesystem(directory: &Path) {
        let directory = &directory.join("node");
        std::fs::create_dir(directory).unwrap();
        mount(&["--bind", &text(directory), &text(directory)]);
        let others = share(directory);
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        rig.publish(&volume, "pod", MODE).await.unwrap();
        let seen = weka_mounts_below(&others);
        assert!(seen.iter().all(|(point, root)| point.ends_with("pods/pod/mount") && root != "/"), "{seen:?}");
        assert_eq!(seen.len(), 1, "the volume is seen: {seen:?}");
        assert!(!weka_mounts_below(&directory.join("mounts")).is_empty(), "the driver has the filesystem mounted");
        rig.unpublish(&volume, "pod").await.unwrap();
        assert_eq!(weka_mounts_below(&others), []);
        rig.stop().await;
    }

    async fn filesystems_that_others_see_since_an_earlier_release_are_taken_away(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        // A directory of the node, as the pods of earlier releases had it.
        let base = directory.join("mounts");
        std::fs::create_dir(&base).unwrap();
        mount(&["-t", "tmpfs", "node", &text(&base)]);
        let others = share(&base);
        let left = base.join("left");
        std::fs::create_dir(&left).unwrap();
        mount(&["-t", "wekafs", "default", &text(&left)]);
        assert_eq!(weka_mounts_below(&others).len(), 1, "others see it");
        let rig = Rig::start(directory, &cluster, &[]);
        let volume = rig.create("volume", GIB, &[]).await.unwrap().volume_id;
        rig.publish(&volume, "pod", MODE).await.unwrap();
        assert_eq!(weka_mounts_below(&others), []);
        rig.unpublish(&volume, "pod").await.unwrap();
        let again = Rig::of_process(directory, &cluster);
        again.delete(&volume).await.unwrap();
        rig.stop_with(&[base]).await;
    }
}

/// Another place that gets what is mounted below a mount, as other pods have the directories of a node.
fn share(mounted: &Path) -> PathBuf {
    let others = mounted.with_file_name("others");
    std::fs::create_dir(&others).unwrap();
    mount(&["--make-shared", &text(mounted)]);
    mount(&["--bind", &text(mounted), &text(&others)]);
    others
}

/// Mounts of Weka at or below a directory: where each is, and what it shows.
fn weka_mounts_below(directory: &Path) -> Vec<(PathBuf, String)> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let lines = table.lines().filter(|line| line.contains(" fuse.wekafs "));
    let fields = lines.map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        (PathBuf::from(fields[4]), fields[3].to_owned())
    });
    fields
        .filter(|(point, _)| point.starts_with(directory))
        .collect()
}

fn mount(arguments: &[&str]) {
    let done = Command::new("mount").args(arguments).status().unwrap();
    assert!(done.success(), "{arguments:?}");
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
