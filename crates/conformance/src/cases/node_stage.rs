//! `NodeStageVolume` and `NodeUnstageVolume`.

use stowage_csi::proto::csi::{NodeStageVolumeRequest, NodeUnstageVolumeRequest};
use tonic::Code;

use crate::capability::{Need, NodeRpc};
use crate::case::{Case, Group};
use crate::check::Checked;
use crate::scene::Scene;

const STAGES: &[Need] = &[Need::Node(NodeRpc::StageUnstageVolume)];

pub(super) const STAGE: Group = Group {
    name: "NodeStageVolume",
    needs: STAGES,
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(without_volume(scene))
        }),
        Case::new("refuses a request without a staging path", |scene| {
            Box::pin(without_path(scene))
        }),
        Case::new("refuses a request without a capability", |scene| {
            Box::pin(without_capability(scene))
        }),
    ],
};

pub(super) const UNSTAGE: Group = Group {
    name: "NodeUnstageVolume",
    needs: STAGES,
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(unstage_without_volume(scene))
        }),
        Case::new("refuses a request without a staging path", |scene| {
            Box::pin(unstage_without_path(scene))
        }),
    ],
};

/// A request in which everything is there; cases take one thing out.
async fn request(scene: &mut Scene) -> Checked<NodeStageVolumeRequest> {
    // A driver that attaches needs something from its controller here; what it is does not matter in these cases.
    let device = ("device".to_owned(), "/dev/mock".to_owned());
    Ok(NodeStageVolumeRequest {
        volume_id: scene.some_volume().await?,
        publish_context: [device].into(),
        staging_target_path: scene.staging().await?,
        volume_capability: Some(scene.capability()),
        ..Default::default()
    })
}

async fn without_volume(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.volume_id.clear();
    let answer = scene.node_stage(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn without_path(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.staging_target_path.clear();
    let answer = scene.node_stage(request).await;
    answer
        .when("without a staging path")
        .refused_with(Code::InvalidArgument)
}

async fn without_capability(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.volume_capability = None;
    let answer = scene.node_stage(request).await;
    answer
        .when("without a capability")
        .refused_with(Code::InvalidArgument)
}

async fn unstage_without_volume(scene: &mut Scene) -> Checked {
    let request = NodeUnstageVolumeRequest {
        volume_id: String::new(),
        staging_target_path: scene.staging().await?,
    };
    let answer = scene.node_unstage(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn unstage_without_path(scene: &mut Scene) -> Checked {
    let request = NodeUnstageVolumeRequest {
        volume_id: scene.some_volume().await?,
        staging_target_path: String::new(),
    };
    let answer = scene.node_unstage(request).await;
    answer
        .when("without a staging path")
        .refused_with(Code::InvalidArgument)
}
