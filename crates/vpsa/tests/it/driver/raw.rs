//! Raw disks, to which pods write without a word about when it has to be on the array.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::{NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest};
use tokio::time::sleep;
use tonic::{Code, Status};

use crate::driver::calls::Used;
use crate::driver::rig::Rig;

/// How long a call may be repeated, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes to a device as a pod does that ends at once: nothing is written out.
fn write(device: &Path, text: [u8; 64]) {
    let device = OpenOptions::new().write(true).open(device).unwrap();
    device.write_all_at(&text, 0).unwrap();
}

fn read(device: &Path) -> [u8; 64] {
    let mut text = [0; 64];
    let device = File::open(device).unwrap();
    device.read_exact_at(&mut text, 0).unwrap();
    text
}

impl Rig {
    /// What another node would read of a disk: what the array has.
    async fn elsewhere(&self, used: &Used) -> [u8; 64] {
        let objects = self.array.control().objects().await.unwrap();
        let mut volumes = objects.volumes.into_values();
        let volume = volumes.find(|it| it.display_name == used.id).unwrap();
        read(&self.path(&format!("array/volumes/{}/disk", volume.id)))
    }

    async fn unpublish_only(&mut self, used: &Used) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: used.id.clone(),
            target_path: self.target(used).display().to_string(),
        };
        self.node.node_unpublish_volume(request).await.map(drop)
    }

    async fn unstage_only(&mut self, used: &Used) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: used.id.clone(),
            staging_target_path: self.staging(used),
        };
        self.node.node_unstage_volume(request).await.map(drop)
    }
}

isolated! {
    async fn what_a_pod_wrote_last_to_a_raw_disk_is_read_by_the_next_on_any_node(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut other = rig.create("pvc-2", 1, true, None).await.unwrap();
        let mut used = rig.create("pvc-1", 1, true, None).await.unwrap();
        // Alone, so that the session goes with it, and beside another disk, which keeps the session.
        for round in 1..=4 {
            let place = rig.publish(&mut used).await.unwrap();
            write(&place, [round; 64]);
            rig.unpublish_only(&used).await.unwrap();
            assert_eq!(rig.elsewhere(&used).await, [round; 64], "no pod has it any more");
            // Whoever has the staged device writes it as well.
            let staged = Path::new(&rig.staging(&used)).join("device");
            write(&staged, [10 + round; 64]);
            rig.unpublish(&used).await.unwrap();
            assert_eq!(rig.elsewhere(&used).await, [10 + round; 64]);
            let place = rig.publish(&mut used).await.unwrap();
            assert_eq!(read(&place), [10 + round; 64]);
            rig.unpublish(&used).await.unwrap();
            if round == 2 {
                rig.publish(&mut other).await.unwrap();
            }
        }
        for used in [used, other] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        rig.stop_driver().await;
    }

    async fn a_disk_that_does_not_take_what_was_written_stays_until_it_does(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let mut used = rig.create("pvc-1", 1, true, None).await.unwrap();
        let place = rig.publish(&mut used).await.unwrap();
        rig.stop_driver().await;
        rig.request_timeout = "16s";
        rig.start_driver();
        write(&place, [1; 64]);
        rig.array.control().set_data(false).await.unwrap();
        let late = rig.unpublish_only(&used).await.unwrap_err();
        assert_eq!(late.code(), Code::Unavailable, "{late}");
        for said in ["is still in memory", place.to_str().unwrap()] {
            assert!(late.message().contains(said), "{late}");
        }
        let late = rig.unstage_only(&used).await.unwrap_err();
        assert_eq!(late.code(), Code::Unavailable, "{late}");
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(table.contains(place.to_str().unwrap()), "{table}");

        rig.array.control().set_data(true).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        while let Err(late) = rig.unpublish_only(&used).await {
            assert!(Instant::now() < deadline, "{late}");
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(rig.elsewhere(&used).await, [1; 64]);
        rig.stop_driver().await;
        rig.request_timeout = "180s";
        rig.start_driver();
        rig.unpublish(&used).await.unwrap();
        assert_eq!(rig.elsewhere(&used).await, [1; 64]);
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
