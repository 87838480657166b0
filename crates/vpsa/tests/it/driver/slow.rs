//! Disks that take longer than a call.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::NodeUnstageVolumeRequest;
use tokio::time::sleep;
use tonic::Code;

use crate::driver::calls::Used;
use crate::driver::life::write;
use crate::driver::rig::Rig;
use crate::driver::tools::{self, MKFS};

/// How long a call may be repeated, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

impl Rig {
    /// Stages until the call ends like this; those before are late, or come while another is at work.
    async fn stage_until(&mut self, used: &Used, expected: Code) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let code = self
                .stage(used)
                .await
                .err()
                .map_or(Code::Ok, |it| it.code());
            if code == expected {
                return;
            }
            assert!(
                matches!(code, Code::DeadlineExceeded | Code::Aborted),
                "{code:?}"
            );
            let is_late = Instant::now() >= deadline;
            assert!(!is_late, "{} never ends with {expected:?}", used.id);
            sleep(Duration::from_millis(200)).await;
        }
    }
}

isolated! {
    async fn a_filesystem_that_takes_longer_than_a_call_is_made_once_and_to_its_end(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        rig.attach(&mut used).await.unwrap();
        rig.stop_driver().await;
        rig.request_timeout = "10s";
        rig.start_driver();
        tools::hang(directory, MKFS);
        rig.stage_until(&used, Code::DeadlineExceeded).await;
        rig.stage_until(&used, Code::Aborted).await;
        tools::go_on(directory, MKFS);
        rig.stage_until(&used, Code::Ok).await;
        let made = tools::given(directory, MKFS);
        assert_eq!(made.lines().count(), 1, "{made}");

        rig.stop_driver().await;
        rig.request_timeout = "180s";
        rig.start_driver();
        let place = rig.publish(&mut used).await.unwrap();
        write(&place.join("file"), "text");
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "text");
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        rig.stop_driver().await;
    }

    async fn a_disk_that_takes_long_holds_up_no_other_of_its_array_and_keeps_the_session(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut other = rig.create("pvc-2", 1, false, None).await.unwrap();
        let place = rig.publish(&mut other).await.unwrap();
        write(&place.join("file"), "text");
        rig.unpublish(&other).await.unwrap();
        let mut slow = rig.create("pvc-1", 1, false, None).await.unwrap();
        for used in [&mut slow, &mut other] {
            rig.attach(used).await.unwrap();
        }
        rig.stop_driver().await;
        rig.request_timeout = "10s";
        rig.start_driver();
        tools::hang(directory, MKFS);
        rig.stage_until(&slow, Code::Aborted).await;
        rig.stage_until(&other, Code::Ok).await;
        let request = NodeUnstageVolumeRequest {
            volume_id: other.id.clone(),
            staging_target_path: rig.staging(&other),
        };
        rig.node.node_unstage_volume(request).await.unwrap();
        assert_eq!(rig.sessions().await, 1, "the other disk is not mounted yet");
        tools::go_on(directory, MKFS);
        rig.stage_until(&slow, Code::Ok).await;
        rig.stop_driver().await;
        rig.request_timeout = "180s";
        rig.start_driver();
        for used in [slow, other] {
            rig.unpublish(&used).await.unwrap();
            rig.delete(used).await;
        }
        assert_eq!(rig.sessions().await, 0);
        rig.stop_driver().await;
    }
}
