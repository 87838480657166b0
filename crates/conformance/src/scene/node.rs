//! Calls of the node.

use stowage_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest,
    NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};

use super::Scene;
use super::ledger::Made;
use crate::check::{Answer, ask};
use crate::secrets::SecretKind;

impl Scene {
    pub(crate) async fn node_stage(
        &mut self,
        mut request: NodeStageVolumeRequest,
    ) -> Answer<NodeStageVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::NodeStage);
        let begun = self.ledger.begin(Made::Staged {
            volume_id: request.volume_id.clone(),
            path: request.staging_target_path.clone(),
        });
        let answer = ask(
            "NodeStageVolume",
            self.driver().node().node_stage_volume(request),
        )
        .await;
        self.ledger.settle(begun, answer.result());
        answer
    }

    pub(crate) async fn node_unstage(
        &mut self,
        request: NodeUnstageVolumeRequest,
    ) -> Answer<NodeUnstageVolumeResponse> {
        let made = Made::Staged {
            volume_id: request.volume_id.clone(),
            path: request.staging_target_path.clone(),
        };
        let answer = ask(
            "NodeUnstageVolume",
            self.driver().node().node_unstage_volume(request),
        )
        .await;
        if answer.result().is_ok() {
            self.ledger.forget(&made);
        }
        answer
    }

    pub(crate) async fn node_publish(
        &mut self,
        mut request: NodePublishVolumeRequest,
    ) -> Answer<NodePublishVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::NodePublish);
        let begun = self.ledger.begin(Made::Published {
            volume_id: request.volume_id.clone(),
            path: request.target_path.clone(),
        });
        let answer = ask(
            "NodePublishVolume",
            self.driver().node().node_publish_volume(request),
        )
        .await;
        self.ledger.settle(begun, answer.result());
        answer
    }

    pub(crate) async fn node_unpublish(
        &mut self,
        request: NodeUnpublishVolumeRequest,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        let made = Made::Published {
            volume_id: request.volume_id.clone(),
            path: request.target_path.clone(),
        };
        let answer = ask(
            "NodeUnpublishVolume",
            self.driver().node().node_unpublish_volume(request),
        )
        .await;
        if answer.result().is_ok() {
            self.ledger.forget(&made);
        }
        answer
    }

    pub(crate) async fn node_stats(
        &self,
        volume_id: &str,
        path: &str,
    ) -> Answer<NodeGetVolumeStatsResponse> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: volume_id.to_owned(),
            volume_path: path.to_owned(),
            ..Default::default()
        };
        ask(
            "NodeGetVolumeStats",
            self.driver().node().node_get_volume_stats(request),
        )
        .await
    }

    pub(crate) async fn node_expand(
        &self,
        mut request: NodeExpandVolumeRequest,
    ) -> Answer<NodeExpandVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::NodeExpand);
        ask(
            "NodeExpandVolume",
            self.driver().node().node_expand_volume(request),
        )
        .await
    }
}
