//! The embedded driver in more than one pod: processes that share a state directory, and nothing else.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use devcluster::testing::Namespace;
use nix::unistd::Pid;
use stowage_csi::proto::csi::{
    CreateSnapshotRequest, DeleteSnapshotRequest, DeleteVolumeRequest, Snapshot,
};
use stowage_tests::{cluster, pod_in_phase, ready_pod_on};
use tonic::Code;

use super::claims::{MIB, NODE, Pod, claim, remove};
use super::driver_on_node::DriverOnNode;
use super::shape::Shape;

/// Takes a snapshot of a volume; what happens to the volume is for the driver to know.
fn snapshot(driver: &DriverOnNode, namespace: &Namespace, volume: &str) -> Snapshot {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: format!("{}-snapshot", namespace.name()),
        ..CreateSnapshotRequest::default()
    };
    let made = driver.controller(async |mut controller| controller.create_snapshot(request).await);
    made.unwrap().into_inner().snapshot.unwrap()
}

fn delete_snapshot(driver: &DriverOnNode, snapshot_id: &str) {
    let request = DeleteSnapshotRequest {
        snapshot_id: snapshot_id.to_owned(),
        ..DeleteSnapshotRequest::default()
    };
    let deleted =
        driver.controller(async |mut controller| controller.delete_snapshot(request).await);
    deleted.unwrap();
}

/// A volume in use cannot be deleted, though the controller sees none of its mounts.
fn must_refuse_to_delete(driver: &DriverOnNode, volume: &str) {
    let request = DeleteVolumeRequest {
        volume_id: volume.to_owned(),
        ..DeleteVolumeRequest::default()
    };
    let deleted = driver.controller(async |mut controller| controller.delete_volume(request).await);
    let status = deleted.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
}

const WRITE_AND_STAY: &str = "echo kept > /data/file; sync; sleep 1000000";

#[test]
fn a_controller_and_a_node_plugin_in_two_pods_share_a_state_directory() {
    let cluster = cluster();
    let namespace = cluster.namespace("two-pods").unwrap();
    let dev = cluster.dev().unwrap();
    let driver = DriverOnNode::start(dev, &namespace, NODE, Shape::OneController);

    let disk = claim(&driver, &namespace, "disk", 32 * MIB, false);
    Pod::new("writer", "disk", WRITE_AND_STAY).start(&namespace);
    pod_in_phase(&namespace, "writer", "Running");
    must_refuse_to_delete(&driver, &disk);
    let copy = snapshot(&driver, &namespace, &disk);
    assert_eq!(copy.size_bytes, 32 * MIB);
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();

    let log = Pod::new("reader", "disk", "cat /data/file").run(&namespace);
    assert_eq!(log, "kept\n");
    delete_snapshot(&driver, &copy.snapshot_id);
    remove(&driver, &namespace, "disk", &disk);
    assert_eq!(driver.files(), Vec::<PathBuf>::new());
}

/// The nodes of loop devices in a container's own `/dev`, with the one by which they are asked for.
fn loop_nodes(process: Pid) -> Vec<PathBuf> {
    let dev = PathBuf::from(format!("/proc/{process}/root/dev"));
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    assert_ne!(
        device(&dev),
        device(Path::new("/dev")),
        "this /dev is the machine's own"
    );
    let entries = fs::read_dir(&dev).unwrap().map(|entry| entry.unwrap());
    let nodes = entries.filter(|entry| entry.file_name().as_bytes().starts_with(b"loop"));
    nodes.map(|entry| entry.path()).collect()
}

/// As if the machine had had no loop devices when the container started.
fn forget_loop_nodes(process: Pid) {
    for node in loop_nodes(process) {
        fs::remove_file(node).unwrap();
    }
}

/// Its containers have a `/dev` of their own, with the loop devices that there were when they started.
#[test]
fn the_original_example_runs_with_its_own_arguments() {
    let cluster = cluster();
    let namespace = cluster.namespace("original").unwrap();
    let dev = cluster.dev().unwrap();
    let driver = DriverOnNode::start(dev, &namespace, NODE, Shape::Original);
    // Its state directory is not the test's own: an earlier one that failed may have left something.
    let before = driver.files();
    let plugin = driver.node_process().unwrap();
    forget_loop_nodes(plugin);

    let disk = claim(&driver, &namespace, "disk", 32 * MIB, false);
    Pod::new("writer", "disk", WRITE_AND_STAY).start(&namespace);
    pod_in_phase(&namespace, "writer", "Running");
    assert!(!loop_nodes(plugin).is_empty(), "the driver makes its own");
    must_refuse_to_delete(&driver, &disk);
    // Another container, with another /dev, takes over what the first one mounted.
    let restart = ["delete", "pod", "-l", Shape::Original.node_label()];
    namespace.kubectl(&restart).unwrap();
    ready_pod_on(&namespace, Shape::Original.node_label(), NODE);
    forget_loop_nodes(driver.node_process().unwrap());
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    let log = Pod::new("reader", "disk", "cat /data/file").run(&namespace);
    assert_eq!(log, "kept\n");
    remove(&driver, &namespace, "disk", &disk);

    let raw = claim(&driver, &namespace, "raw", 16 * MIB, true);
    let script = "echo block | dd of=/dev/data conv=fsync 2>/dev/null";
    Pod::with_device("block-writer", "raw", script).run(&namespace);
    let log = Pod::with_device("block-reader", "raw", "head -n 1 /dev/data").run(&namespace);
    assert_eq!(log, "block\n");
    remove(&driver, &namespace, "raw", &raw);
    assert_eq!(driver.files(), before);
}
