//! The embedded driver under a real kubelet: filesystem, raw block and inline volumes used by real pods.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use stowage_csi::proto::csi::{CreateSnapshotRequest, DeleteSnapshotRequest};
use stowage_tests::{cluster, eventually, pod_in_phase};

use super::claims::{MIB, NODE, Pod, claim, remove};
use super::driver_on_node::DriverOnNode;
use super::shape::Shape;

#[test]
fn a_filesystem_volume_keeps_its_data_and_its_size() {
    let cluster = cluster();
    let namespace = cluster.namespace("filesystem").unwrap();
    let driver = DriverOnNode::start(cluster.dev().unwrap(), &namespace, NODE, Shape::EveryNode);
    let disk = claim(&driver, &namespace, "disk", 32 * MIB, false);

    // A write beyond the size fails; the next pod finds what the first one wrote.
    let script = "echo kept > /data/file; dd if=/dev/zero of=/data/big bs=1M count=64 2>&1; rm /data/big; sync";
    let log = Pod::new("first", "disk", script).run(&namespace);
    assert!(log.contains("No space left on device"), "{log}");
    assert_eq!(
        Pod::new("second", "disk", "cat /data/file").run(&namespace),
        "kept\n"
    );

    // Not root: the group that the pod asks for may write.
    let script = "echo group > /data/of-group && stat -c %g /data/of-group";
    let group = Pod {
        security: "{runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}",
        ..Pod::new("group", "disk", script)
    };
    assert_eq!(group.run(&namespace), "2000\n");

    // A part of the volume by subPath.
    let part = Pod {
        mount: "volumeMounts: [{name: data, mountPath: /part, subPath: a/b}]",
        ..Pod::new("part", "disk", "echo inside > /part/file")
    };
    part.run(&namespace);
    let log = Pod::new("whole", "disk", "cat /data/a/b/file /data/of-group").run(&namespace);
    assert_eq!(log, "inside\ngroup\n");
    remove(&driver, &namespace, "disk", &disk);
}

#[test]
fn a_block_volume_is_a_device_and_an_inline_volume_lives_as_long_as_its_pod() {
    let cluster = cluster();
    let namespace = cluster.namespace("block").unwrap();
    let driver = DriverOnNode::start(cluster.dev().unwrap(), &namespace, NODE, Shape::EveryNode);

    let raw = claim(&driver, &namespace, "raw", 16 * MIB, true);
    let script =
        "blockdev --getsize64 /dev/data; echo block | dd of=/dev/data conv=fsync 2>/dev/null";
    assert_eq!(
        Pod::with_device("writer", "raw", script).run(&namespace),
        "16777216\n"
    );
    assert_eq!(
        Pod::with_device("reader", "raw", "head -n 1 /dev/data").run(&namespace),
        "block\n"
    );

    let inline = Pod {
        volume: format!(
            "csi: {{driver: {}, volumeAttributes: {{size: 20Mi}}}}",
            driver.name
        ),
        ..Pod::new(
            "inline",
            "",
            "echo brief > /data/x && cat /data/x && df -k /data | tail -n 1",
        )
    };
    let log = inline.run(&namespace);
    assert!(log.starts_with("brief\n"), "{log}");
    remove(&driver, &namespace, "raw", &raw);
}

/// The machine's filesystems have no reflinks, so a snapshot of a volume in use freezes it while it is copied.
#[test]
fn a_driver_killed_in_the_middle_of_a_frozen_snapshot_leaves_no_pod_frozen() {
    let cluster = cluster();
    let namespace = cluster.namespace("frozen").unwrap();
    let driver = DriverOnNode::start(cluster.dev().unwrap(), &namespace, NODE, Shape::EveryNode);
    let volume = claim(&driver, &namespace, "disk", 1024 * MIB, false);
    let script = "dd if=/dev/urandom of=/data/much bs=1M count=700 2>/dev/null; sync; \
                  while true; do date +%s > /data/now; sync; echo wrote; usleep 100000; done";
    Pod::new("writer", "disk", script).start(&namespace);
    pod_in_phase(&namespace, "writer", "Running");
    let writes = || {
        namespace
            .kubectl(&["logs", "writer"])
            .map_or(0, |log| log.lines().count())
    };
    eventually("the pod writes", || (writes() > 0).then_some(()));

    let killed = driver.node_process().expect("the driver runs");
    let snapshot = CreateSnapshotRequest {
        source_volume_id: volume.clone(),
        name: format!("{}-snapshot", namespace.name()),
        ..CreateSnapshotRequest::default()
    };
    let outcome = driver.controller(async |mut controller| {
        let request = snapshot.clone();
        let call = tokio::spawn(async move { controller.create_snapshot(request).await });
        wait_frozen(&driver.state()).await;
        kill(killed, Signal::SIGKILL).unwrap();
        call.await.unwrap()
    });
    assert!(
        outcome.is_err(),
        "the driver was killed before it could answer"
    );

    eventually("the driver is back", || {
        driver.node_process().filter(|pid| *pid != killed)
    });
    let before = writes();
    eventually("the pod writes again", || {
        (writes() > before + 3).then_some(())
    });
    // And the same call again succeeds, with nothing half-made in its way.
    let made = eventually("the snapshot is made", || {
        let request = snapshot.clone();
        driver
            .controller(async |mut controller| controller.create_snapshot(request).await)
            .ok()
    });
    let before = writes();
    eventually("the pod writes after the snapshot", || {
        (writes() > before + 3).then_some(())
    });

    let request = DeleteSnapshotRequest {
        snapshot_id: made.into_inner().snapshot.unwrap().snapshot_id,
        ..DeleteSnapshotRequest::default()
    };
    driver
        .controller(async |mut controller| controller.delete_snapshot(request).await)
        .unwrap();
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    remove(&driver, &namespace, "disk", &volume);
}

/// A filesystem is frozen a moment after the record of it appears, which is written before the freeze.
async fn wait_frozen(state: &Path) {
    let records = state.join("frozen");
    let is_there = || std::fs::read_dir(&records).is_ok_and(|mut entries| entries.next().is_some());
    let started = Instant::now();
    while !is_there() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "no volume was frozen"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
}
