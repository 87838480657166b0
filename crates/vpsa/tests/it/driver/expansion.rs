//! Sizes that no array has room for, and how they are taken back.

use std::path::Path;

use devcluster::isolated;
use serde_json::json;
use stowage_csi::proto::csi::{CapacityRange, ControllerExpandVolumeRequest};
use tonic::{Code, Status};

use crate::driver::calls::{GIB, Used};
use crate::driver::rig::Rig;

impl Rig {
    async fn expand(&mut self, used: &Used, gib: i64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: used.id.clone(),
            capacity_range: Some(CapacityRange {
                required_bytes: gib * GIB,
                limit_bytes: 0,
            }),
            ..ControllerExpandVolumeRequest::default()
        };
        let grown = self.controller.controller_expand_volume(request).await?;
        Ok(grown.into_inner().capacity_bytes)
    }
}

isolated! {
    async fn a_size_that_no_array_has_room_for_is_out_of_range_and_can_be_taken_back(directory: &Path) {
        let mut rig = Rig::start(directory, json!({})).await;
        let used = rig.create("pvc-1", 2, false, None).await.unwrap();
        let refused = rig.expand(&used, 5000).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
        let told = rig.until("volume", "pvc-1", |it| it["status"]["conditions"][0]["reason"] == "NoRoom").await;
        assert_eq!(told["status"]["capacity"], "2Gi");
        assert_eq!(rig.expand(&used, 3).await.unwrap(), 3 * GIB);
        // It never shrinks, whoever asks.
        assert_eq!(rig.expand(&used, 1).await.unwrap(), 3 * GIB);
        let volume = rig.until("volume", "pvc-1", |it| it["status"]["conditions"][0]["reason"] == "Ready").await;
        assert_eq!(volume["spec"]["size"], "3Gi");
        rig.delete(used).await;
        rig.stop_driver().await;
    }
}
