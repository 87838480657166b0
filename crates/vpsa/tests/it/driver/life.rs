//! The life of volumes on a node: written, published, grown, copied, deleted; and what becomes of it in trouble.

use std::fs;
use std::path::Path;

use devcluster::isolated;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::json;
use stowage_csi::proto::csi::{DeleteSnapshotRequest, DeleteVolumeRequest};
use tonic::Code;

use crate::driver::calls::{GIB, Used};
use crate::driver::rig::{NODE, Rig};
use crate::driver::tools;

/// Writes a file as it must be for a snapshot of its disk: what is in memory only is not on the array.
pub fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::File::open(file).unwrap().sync_all().unwrap();
}

/// Bytes that the filesystem at a path has.
pub fn size(path: &Path) -> u64 {
    let found = rustix::fs::statvfs(path).unwrap();
    found.f_blocks * found.f_frsize
}

/// Writes, grows in use, copies into more room, and finds everything where it was.
async fn live(directory: &Path, class: serde_json::Value, disks: bool) {
    let mut rig = Rig::start(directory, class).await;
    let mut used = rig.create("pvc-1", 2, false, None).await.unwrap();
    let place = rig.publish(&mut used).await.unwrap();
    write(&place.join("file"), "before");
    assert_eq!(rig.sessions().await, usize::from(disks));
    let snapshot = rig.snapshot("snapshot-1", &used).await;
    write(&place.join("file"), "after");
    rig.grow(&used, 3).await;
    if disks {
        assert!(
            size(&place) > 2 * GIB as u64 + GIB as u64 / 2,
            "{}",
            size(&place)
        );
    }

    // The driver goes and comes back, and nobody who writes notices.
    rig.stop_driver().await;
    write(&place.join("file"), "meanwhile");
    rig.start_driver();
    let mut copy = rig
        .create("pvc-2", 4, false, Some(&snapshot))
        .await
        .unwrap();
    let copied = rig.publish(&mut copy).await.unwrap();
    assert_eq!(fs::read_to_string(copied.join("file")).unwrap(), "before");
    assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "meanwhile");
    assert_eq!(rig.on_array().await, (2, 1, 1));

    rig.unpublish(&used).await.unwrap();
    assert_eq!(
        rig.sessions().await,
        usize::from(disks),
        "the copy is in use"
    );
    rig.unpublish(&used).await.unwrap();
    let place = rig.publish(&mut used).await.unwrap();
    assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "meanwhile");
    for used in [&used, &copy] {
        rig.unpublish(used).await.unwrap();
    }
    assert_eq!(rig.sessions().await, 0);
    let request = DeleteSnapshotRequest {
        snapshot_id: snapshot,
        ..DeleteSnapshotRequest::default()
    };
    rig.controller.delete_snapshot(request).await.unwrap();
    rig.delete(used).await;
    rig.delete(copy).await;
    assert_eq!(rig.on_array().await, (0, 0, 0));
    rig.stop_driver().await;
}

/// Publishes as a kubelet does: again, as long as nothing but time is lacking.
async fn publish_in_time(rig: &mut Rig, used: &mut Used) {
    for _ in 0..20 {
        let Err(late) = rig.publish(used).await else {
            return;
        };
        assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    }
    panic!("{} is never published", used.id);
}

isolated! {
    async fn a_share_is_written_grown_copied_and_deleted_without_a_trace(directory: &Path) {
        live(directory, json!({}), false).await;
    }

    async fn a_filesystem_on_a_disk_is_written_grown_copied_and_deleted_without_a_trace(directory: &Path) {
        live(directory, json!({"volumeType": "Block"}), true).await;
    }

    async fn a_node_that_died_between_unmount_and_logout_leaves_no_session(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut volumes = Vec::new();
        for name in ["pvc-1", "pvc-2"] {
            let mut used = rig.create(name, 1, false, None).await.unwrap();
            rig.publish(&mut used).await.unwrap();
            volumes.push(used);
        }
        for (used, left) in volumes.iter().zip([1, 0]) {
            for place in [rig.target(used), rig.staging(used).into()] {
                unmount(&place, UnmountFlags::empty()).unwrap();
            }
            rig.unpublish(used).await.unwrap();
            assert_eq!(rig.sessions().await, left, "{} was unstaged", used.id);
        }
        for used in volumes {
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }

    async fn a_raw_disk_is_a_device_and_nobody_reads_its_secret(directory: &Path) {
        use std::os::unix::fs::FileTypeExt as _;

        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, true, None).await.unwrap();
        let place = rig.publish(&mut used).await.unwrap();
        assert!(fs::metadata(&place).unwrap().file_type().is_block_device());
        let attachment = rig.until("volumeattachment", &format!("pvc-1.{NODE}"), |it| it["status"]["state"] == "Ready").await;
        assert_eq!(attachment["status"]["Block"]["ISCSIStatus"], "Active");
        let objects = rig.array.control().objects().await.unwrap();
        let secret = objects.servers.values().next().unwrap().chap_secret.clone();
        assert!(secret.len() >= 12);
        assert!(!format!("{:?}", used.context).contains(&secret));
        assert!(used.context["chapSecret"].starts_with("AES2:"));
        let given = tools::given(directory, "iscsiadm");
        assert!(given.contains("--login") && !given.contains(&secret), "{given}");
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn tools_that_hang_are_abandoned_and_named_and_their_volumes_go_on_afterwards(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut share = rig.create("pvc-1", 1, false, None).await.unwrap();
        let mut disk = rig.create("pvc-2", 1, true, None).await.unwrap();
        rig.attach(&mut share).await.unwrap();
        rig.attach(&mut disk).await.unwrap();
        // As long may a call take.
        rig.stop_driver().await;
        rig.request_timeout = "5s";
        rig.start_driver();
        let tools = ["mount.nfs", "iscsiadm"];
        for tool in tools {
            tools::hang(directory, tool);
        }
        let (mut on_share, mut on_disk) = (rig.node.clone(), rig.node.clone());
        let (for_share, for_disk) = (rig.stage_request(&share), rig.stage_request(&disk));
        let (on_share, on_disk) = tokio::join!(
            on_share.node_stage_volume(for_share),
            on_disk.node_stage_volume(for_disk)
        );
        for hung in [on_share, on_disk] {
            let hung = hung.unwrap_err();
            assert_eq!(hung.code(), Code::DeadlineExceeded, "{hung}");
            let said = "look for commands that hang (`iscsiadm`, `multipath`, `mount`) on the node";
            assert!(hung.message().contains(said), "{hung}");
        }
        for tool in tools {
            tools::go_on(directory, tool);
        }
        // Nobody restarted the driver: a call that was abandoned holds nothing.
        for used in [&mut share, &mut disk] {
            publish_in_time(&mut rig, used).await;
        }
        rig.stop_driver().await;
        rig.request_timeout = "180s";
        rig.start_driver();
        for used in [&mut share, &mut disk] {
            rig.publish(used).await.unwrap();
        }
        for used in [share, disk] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }

    async fn every_step_that_fails_is_named_with_the_arrays_reason_and_goes_on_afterwards(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let full = rig.create("pvc-1", 5000, true, None).await.err().unwrap();
        assert_eq!(full.code(), Code::ResourceExhausted);
        assert!(full.message().contains("one: it has 1000 GB available and 5000 GB are needed"), "{full}");
        rig.until("volume", "pvc-1", serde_json::Value::is_null).await;

        rig.fault("POST", "volumes", "the heavens have fallen").await;
        let refused = rig.create("pvc-1", 1, true, None).await.err().unwrap();
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(refused.message().contains("create a volume (status 7): the heavens have fallen"), "{refused}");
        rig.mend().await;
        // As a sidecar does.
        let mut made = rig.create("pvc-1", 1, true, None).await;
        while made.is_err() {
            made = rig.create("pvc-1", 1, true, None).await;
        }
        let mut used = made.unwrap();

        for (path, step) in [("servers", "create a server"), ("servers/*/volumes", "attach a volume")] {
            rig.fault("POST", path, "not today").await;
            let mut refused = rig.attach(&mut used).await.unwrap_err();
            while !refused.message().contains(step) {
                refused = rig.attach(&mut used).await.unwrap_err();
            }
            assert_eq!(refused.code(), Code::Unavailable);
            assert!(refused.message().contains("not today"), "{refused}");
            rig.mend().await;
        }
        let mut attached = rig.attach(&mut used).await;
        while attached.is_err() {
            attached = rig.attach(&mut used).await;
        }

        rig.array.control().set_data(false).await.unwrap();
        let unreached = rig.stage(&used).await.unwrap_err();
        assert!(unreached.message().contains("cannot log in"), "{unreached}");
        rig.array.control().set_data(true).await.unwrap();
        rig.publish(&mut used).await.unwrap();
        let busy = rig.controller.delete_volume(DeleteVolumeRequest { volume_id: used.id.clone(), ..DeleteVolumeRequest::default() }).await;
        assert_eq!(busy.unwrap_err().code(), Code::FailedPrecondition);
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        assert_eq!(rig.on_array().await, (0, 0, 0));
        rig.stop_driver().await;
    }
}
