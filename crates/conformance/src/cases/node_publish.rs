//! `NodePublishVolume` and `NodeUnpublishVolume`.

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest};
use tonic::Code;

use crate::capability::{ControllerRpc, Need, NodeRpc};
use crate::case::{Case, Group};
use crate::check::{Checked, ensure};
use crate::places::Found;
use crate::scene::Scene;

const CREATE_DELETE: Need = Need::Controller(ControllerRpc::CreateDeleteVolume);

pub(super) const PUBLISH: Group = Group {
    name: "NodePublishVolume",
    needs: &[],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(without_volume(scene))
        }),
        Case::new("refuses a request without a target path", |scene| {
            Box::pin(without_target(scene))
        }),
        Case::new("refuses a request without a capability", |scene| {
            Box::pin(without_capability(scene))
        }),
        Case::new("refuses a second target for a single writer", |scene| {
            Box::pin(second_target(scene))
        })
        .needs(&[CREATE_DELETE, Need::Node(NodeRpc::SingleNodeMultiWriter)]),
    ],
};

pub(super) const UNPUBLISH: Group = Group {
    name: "NodeUnpublishVolume",
    needs: &[],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(unpublish_without_volume(scene))
        }),
        Case::new("refuses a request without a target path", |scene| {
            Box::pin(unpublish_without_target(scene))
        }),
        Case::new("removes the target path", |scene| {
            Box::pin(unpublish(scene))
        })
        .needs(&[CREATE_DELETE]),
    ],
};

/// A request in which everything is there; cases take one thing out.
async fn request(scene: &mut Scene) -> Checked<NodePublishVolumeRequest> {
    let mut request = NodePublishVolumeRequest {
        volume_id: scene.some_volume().await?,
        target_path: scene.target("target").await?,
        volume_capability: Some(scene.capability()),
        ..Default::default()
    };
    if scene.has(Need::Node(NodeRpc::StageUnstageVolume))? {
        request.staging_target_path = scene.staging().await?;
    }
    Ok(request)
}

async fn without_volume(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.volume_id.clear();
    let answer = scene.node_publish(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn without_target(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.target_path.clear();
    let answer = scene.node_publish(request).await;
    answer
        .when("without a target path")
        .refused_with(Code::InvalidArgument)
}

async fn without_capability(scene: &mut Scene) -> Checked {
    let mut request = request(scene).await?;
    request.volume_capability = None;
    let answer = scene.node_publish(request).await;
    answer
        .when("without a capability")
        .refused_with(Code::InvalidArgument)
}

async fn second_target(scene: &mut Scene) -> Checked {
    let flow = scene.attached(Mode::SingleNodeSingleWriter).await?;
    scene.stage(&flow).await?;
    let mut request = flow.publish_request();
    scene.node_publish(request.clone()).await.ok()?;
    request.target_path = scene.target("second-target").await?;
    let answer = scene.node_publish(request).await;
    answer
        .when("of a SINGLE_NODE_SINGLE_WRITER volume at a second target")
        .refused_with(Code::FailedPrecondition)
}

async fn unpublish_without_volume(scene: &mut Scene) -> Checked {
    let request = NodeUnpublishVolumeRequest {
        volume_id: String::new(),
        target_path: scene.target("target").await?,
    };
    let answer = scene.node_unpublish(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn unpublish_without_target(scene: &mut Scene) -> Checked {
    let request = NodeUnpublishVolumeRequest {
        volume_id: scene.some_volume().await?,
        target_path: String::new(),
    };
    let answer = scene.node_unpublish(request).await;
    answer
        .when("without a target path")
        .refused_with(Code::InvalidArgument)
}

async fn unpublish(scene: &mut Scene) -> Checked {
    let flow = scene.published().await?;
    ensure(
        scene.look(&flow.target).await? != Found::Nothing,
        "the target path after NodePublishVolume",
        "the volume",
        "nothing",
    )?;
    let request = NodeUnpublishVolumeRequest {
        volume_id: flow.volume.volume_id.clone(),
        target_path: flow.target.clone(),
    };
    scene.node_unpublish(request).await.ok()?;
    let found = scene.look(&flow.target).await?;
    ensure(
        found == Found::Nothing,
        "the target path after NodeUnpublishVolume",
        "nothing",
        found.to_string(),
    )
}
