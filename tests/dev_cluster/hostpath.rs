//! The embedded driver under a real kubelet: filesystem, raw block and inline volumes used by real pods.

use std::time::{Duration, Instant};

use devcluster::testing::Namespace;
use nix::sys::signal::{Signal, kill};
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume, access_mode,
};
use stowage_csi::proto::csi::{
    CapacityRange, CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest,
    DeleteVolumeRequest, ListVolumesRequest, VolumeCapability,
};
use stowage_tests::{cluster, eventually, get, pod_in_phase};

use super::driver_on_node::DriverOnNode;

const NODE: &str = "node-a";
const MIB: i64 = 1 << 20;

/// Makes a volume on the driver, and a claim that is bound to it.
fn claim(
    driver: &DriverOnNode,
    namespace: &Namespace,
    name: &str,
    size: i64,
    block: bool,
) -> String {
    let access = if block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume::default())
    };
    let request = CreateVolumeRequest {
        name: format!("{}-{name}", namespace.name()),
        capacity_range: Some(CapacityRange {
            required_bytes: size,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![VolumeCapability {
            access_type: Some(access),
            access_mode: Some(AccessMode {
                mode: access_mode::Mode::SingleNodeWriter.into(),
            }),
        }],
        ..CreateVolumeRequest::default()
    };
    let volume = driver.controller(async |mut controller| controller.create_volume(request).await);
    let volume = volume.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.capacity_bytes, size);
    let (pv, mode) = (
        format!("{}-{name}", namespace.name()),
        if block { "Block" } else { "Filesystem" },
    );
    let manifest = format!(
        r#"
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {pv}}}
spec:
  capacity: {{storage: "{size}"}}
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  csi: {{driver: {}, volumeHandle: "{}"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: {}}}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  storageClassName: ""
  volumeName: {pv}
  resources: {{requests: {{storage: "{size}"}}}}
"#,
        driver.name,
        volume.volume_id,
        namespace.name()
    );
    namespace.apply(&manifest).unwrap();
    eventually(&format!("claim {name} is bound"), || {
        get(namespace, "pvc", name).filter(|claim| claim["status"]["phase"] == "Bound")
    });
    volume.volume_id
}

/// Runs a script in a pod until its end; returns what it printed. `how` is the rest of the container, `volume` the
/// pod's volume source.
fn run_pod(
    namespace: &Namespace,
    name: &str,
    volume: &str,
    how: &str,
    security: &str,
    script: &str,
) -> String {
    let manifest = format!(
        r"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {NODE}
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  securityContext: {security}
  volumes: [{{name: data, {volume}}}]
  containers:
    - name: main
      image: busybox
      command: [sh, -c, {script:?}]
      {how}
"
    );
    namespace.apply(&manifest).unwrap();
    eventually(&format!("pod {name} ends"), || {
        let phase = get(namespace, "pod", name)?["status"]["phase"]
            .as_str()?
            .to_owned();
        (phase == "Succeeded" || phase == "Failed").then_some(())
    });
    let log = namespace.kubectl(&["logs", name]).unwrap();
    namespace
        .kubectl(&["delete", "pod", name, "--wait=true"])
        .unwrap();
    log
}

fn of_claim(name: &str) -> String {
    format!("persistentVolumeClaim: {{claimName: {name}}}")
}

const MOUNTED: &str = "volumeMounts: [{name: data, mountPath: /data}]";

#[test]
fn pods_use_filesystem_block_and_inline_volumes_of_the_driver() {
    let cluster = cluster();
    let namespace = cluster.namespace("hostpath").unwrap();
    let driver = DriverOnNode::start(cluster.dev().unwrap(), &namespace, NODE);

    // A filesystem: data survives the pod, and a write beyond the size fails.
    let disk = claim(&driver, &namespace, "disk", 32 * MIB, false);
    let script = "echo kept > /data/file; dd if=/dev/zero of=/data/big bs=1M count=64 2>&1; rm /data/big; sync";
    let log = run_pod(
        &namespace,
        "first",
        &of_claim("disk"),
        MOUNTED,
        "{}",
        script,
    );
    assert!(log.contains("No space left on device"), "{log}");
    let log = run_pod(
        &namespace,
        "second",
        &of_claim("disk"),
        MOUNTED,
        "{}",
        "cat /data/file",
    );
    assert_eq!(log, "kept\n");

    // Not root: the group that the pod asks for may write. And a part of the volume by subPath.
    let group = "{runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}";
    let part = "volumeMounts: [{name: data, mountPath: /part, subPath: a/b}]";
    let log = run_pod(
        &namespace,
        "nonroot",
        &of_claim("disk"),
        MOUNTED,
        group,
        "echo group > /data/of-group && stat -c %g /data/of-group",
    );
    assert_eq!(log, "2000\n");
    run_pod(
        &namespace,
        "part",
        &of_claim("disk"),
        part,
        "{}",
        "echo inside > /part/file",
    );
    let log = run_pod(
        &namespace,
        "whole",
        &of_claim("disk"),
        MOUNTED,
        "{}",
        "cat /data/a/b/file /data/of-group",
    );
    assert_eq!(log, "inside\ngroup\n");

    // A raw block device of exactly its size.
    let raw = claim(&driver, &namespace, "raw", 16 * MIB, true);
    let device = "volumeDevices: [{name: data, devicePath: /dev/data}]";
    let script =
        "blockdev --getsize64 /dev/data; echo block | dd of=/dev/data conv=fsync 2>/dev/null";
    assert_eq!(
        run_pod(&namespace, "writer", &of_claim("raw"), device, "{}", script),
        "16777216\n"
    );
    let log = run_pod(
        &namespace,
        "reader",
        &of_claim("raw"),
        device,
        "{}",
        "head -n 1 /dev/data",
    );
    assert_eq!(log, "block\n");

    // A volume that lives as long as its pod.
    let inline = format!(
        "csi: {{driver: {}, volumeAttributes: {{size: 20Mi}}}}",
        driver.name
    );
    let log = run_pod(
        &namespace,
        "inline",
        &inline,
        MOUNTED,
        "{}",
        "echo brief > /data/x && cat /data/x && df -k /data | tail -n 1",
    );
    assert!(log.starts_with("brief\n"), "{log}");

    // Nothing is left once everything is deleted.
    namespace.kubectl(&["delete", "pvc", "--all"]).unwrap();
    for name in ["disk", "raw"] {
        let pv = format!("{}-{name}", namespace.name());
        namespace.kubectl(&["delete", "pv", &pv]).unwrap();
    }
    for volume_id in [disk, raw] {
        eventually("the volume can be deleted", || {
            let request = DeleteVolumeRequest {
                volume_id: volume_id.clone(),
                ..DeleteVolumeRequest::default()
            };
            driver
                .controller(async |mut controller| controller.delete_volume(request).await)
                .ok()
        });
    }
    let left = driver.controller(async |mut controller| {
        controller.list_volumes(ListVolumesRequest::default()).await
    });
    assert_eq!(left.unwrap().into_inner().entries, Vec::new());
}

/// The machine's file systems have no reflinks, so a snapshot of a volume in use freezes it while it is copied.
#[test]
fn a_driver_killed_in_the_middle_of_a_frozen_snapshot_leaves_no_pod_frozen() {
    let cluster = cluster();
    let namespace = cluster.namespace("frozen").unwrap();
    let driver = DriverOnNode::start(cluster.dev().unwrap(), &namespace, NODE);
    let volume = claim(&driver, &namespace, "disk", 1024 * MIB, false);
    let script = "dd if=/dev/urandom of=/data/much bs=1M count=700 2>/dev/null; sync; \
                  while true; do date +%s > /data/now; sync; echo wrote; usleep 100000; done";
    namespace
        .apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: writer}}, spec: {{nodeName: {NODE}, \
             terminationGracePeriodSeconds: 0, volumes: [{{name: data, {}}}], \
             containers: [{{name: main, image: busybox, command: [sh, -c, {script:?}], {MOUNTED}}}]}}}}",
            of_claim("disk")
        ))
        .unwrap();
    pod_in_phase(&namespace, "writer", "Running");
    let writes = || {
        namespace
            .kubectl(&["logs", "writer"])
            .map_or(0, |log| log.lines().count())
    };
    eventually("the pod writes", || (writes() > 0).then_some(()));

    let killed = driver.pid().expect("the driver runs");
    let snapshot = CreateSnapshotRequest {
        source_volume_id: volume.clone(),
        name: format!("{}-snapshot", namespace.name()),
        ..CreateSnapshotRequest::default()
    };
    let again = snapshot.clone();
    let frozen_by = driver.state();
    let outcome = driver.controller(async |mut controller| {
        let call = tokio::spawn(async move { controller.create_snapshot(snapshot).await });
        // Frozen once the record of it is there: it is written before the freeze.
        let started = Instant::now();
        while !has_thaw_record(&frozen_by) && started.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        kill(killed, Signal::SIGKILL).unwrap();
        call.await.unwrap()
    });
    assert!(
        outcome.is_err(),
        "the driver was killed before it could answer"
    );

    eventually("the driver is back", || {
        driver.pid().filter(|pid| *pid != killed)
    });
    let before = writes();
    eventually("the pod writes again", || {
        (writes() > before + 3).then_some(())
    });
    // And the same call again succeeds, with nothing half-made in its way.
    let made = eventually("the snapshot is made", || {
        let request = again.clone();
        driver
            .controller(async |mut controller| controller.create_snapshot(request).await)
            .ok()
    });
    let snapshot_id = made.into_inner().snapshot.unwrap().snapshot_id;
    eventually("the pod writes after the snapshot", || {
        (writes() > before + 6).then_some(())
    });

    let request = DeleteSnapshotRequest {
        snapshot_id,
        ..DeleteSnapshotRequest::default()
    };
    driver
        .controller(async |mut controller| controller.delete_snapshot(request).await)
        .unwrap();
    namespace.kubectl(&["delete", "pod", "writer"]).unwrap();
    namespace.kubectl(&["delete", "pvc", "disk"]).unwrap();
    namespace
        .kubectl(&["delete", "pv", &format!("{}-disk", namespace.name())])
        .unwrap();
    eventually("the volume can be deleted", || {
        let request = DeleteVolumeRequest {
            volume_id: volume.clone(),
            ..DeleteVolumeRequest::default()
        };
        driver
            .controller(async |mut controller| controller.delete_volume(request).await)
            .ok()
    });
}

/// Whether any file of the state directory is the record of a frozen filesystem.
fn has_thaw_record(state: &std::path::Path) -> bool {
    let folder = state.join("frozen");
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
