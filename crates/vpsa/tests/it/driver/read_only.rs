//! Volumes that can only be read.

use std::fs;
use std::path::{Path, PathBuf};

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::DeleteSnapshotRequest;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::driver::life::write;
use crate::driver::rig::Rig;
use crate::driver::usage::{mount_line, mounted};

isolated! {
    async fn a_filesystem_on_a_disk_that_can_only_be_read_is_mounted_as_it_is(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        for kind in ["ext4", "xfs"] {
            let writer = mounted(kind, Mode::SingleNodeWriter, &[]);
            let readers = mounted(kind, Mode::MultiNodeReaderOnly, &[]);
            let mut used = rig.create(&format!("pvc-{kind}"), 1, false, None).await.unwrap();
            let empty = rig.publish_as(&mut used, &readers).await.unwrap_err();
            assert_eq!(empty.code(), Code::FailedPrecondition, "{empty}");
            assert!(empty.message().contains("holds nothing, no"), "{empty}");
            rig.unpublish(&used).await.unwrap();
            let place = rig.publish_as(&mut used, &writer).await.unwrap();
            write(&place.join("file"), "text");
            // In use: its log is not empty.
            let snapshot = rig.snapshot(&format!("snapshot-{kind}"), &used).await;
            rig.unpublish(&used).await.unwrap();
            for (way, read_only) in [(&readers, false), (&writer, true)] {
                let place = rig.publish_for(&mut used, way, read_only).await.unwrap();
                // Called twice: it is so.
                rig.publish_for(&mut used, way, read_only).await.unwrap();
                assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "text");
                let refused = fs::write(place.join("file"), "other").unwrap_err();
                assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
                let name = rig.device(&used.context["lun"]).file_name().unwrap().to_owned();
                let protected = fs::read_to_string(Path::new("/sys/block").join(name).join("ro")).unwrap();
                assert_eq!(protected.trim(), "1", "the array itself would refuse");
                rig.unpublish(&used).await.unwrap();
            }
            let mut copy = rig.create(&format!("copy-{kind}"), 1, false, Some(&snapshot)).await.unwrap();
            let place = rig.publish_as(&mut copy, &readers).await.unwrap();
            assert!(mount_line(&place).contains(" ro,"), "{}", mount_line(&place));
            rig.unpublish(&copy).await.unwrap();
            rig.delete(copy).await;
            let request = DeleteSnapshotRequest { snapshot_id: snapshot, ..DeleteSnapshotRequest::default() };
            rig.controller.delete_snapshot(request).await.unwrap();
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }

    async fn a_share_of_a_volume_for_reading_is_mounted_so_on_the_node_as_well(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let way = mounted("", Mode::MultiNodeMultiWriter, &[]);
        rig.publish_for(&mut used, &way, true).await.unwrap();
        let place = rig.publish_for(&mut used, &way, true).await.unwrap();
        for place in [place, PathBuf::from(rig.staging(&used))] {
            assert!(mount_line(&place).contains(" ro,"), "{}", mount_line(&place));
        }
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
