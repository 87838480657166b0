//! `NodeGetVolumeStats`.

use tonic::Code;

use crate::capability::{ControllerRpc, Need, NodeRpc};
use crate::case::{Case, Group};
use crate::check::Checked;
use crate::scene::Scene;

/// Nothing is published there. Relative on purpose: a driver has to look and not only to compare.
pub(super) const NO_PATH: &str = "some/path";

pub(super) const STATS: Group = Group {
    name: "NodeGetVolumeStats",
    needs: &[Need::Node(NodeRpc::GetVolumeStats)],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(without_volume(scene))
        }),
        Case::new("refuses a request without a volume path", |scene| {
            Box::pin(without_path(scene))
        }),
        Case::new("does not find a volume that does not exist", |scene| {
            Box::pin(unknown_volume(scene))
        }),
        Case::new(
            "does not find a volume at a path where it is not",
            |scene| Box::pin(other_path(scene)),
        )
        .needs(&[Need::Controller(ControllerRpc::CreateDeleteVolume)]),
    ],
};

async fn without_volume(scene: &mut Scene) -> Checked {
    let answer = scene.node_stats("", NO_PATH).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn without_path(scene: &mut Scene) -> Checked {
    let volume_id = scene.some_volume().await?;
    let answer = scene.node_stats(&volume_id, "").await;
    answer
        .when("without a volume path")
        .refused_with(Code::InvalidArgument)
}

async fn unknown_volume(scene: &mut Scene) -> Checked {
    let volume_id = scene.unknown_volume();
    let answer = scene.node_stats(&volume_id, NO_PATH).await;
    answer
        .when("of a volume that does not exist")
        .refused_with(Code::NotFound)
}

async fn other_path(scene: &mut Scene) -> Checked {
    let flow = scene.published().await?;
    let answer = scene.node_stats(&flow.volume.volume_id, NO_PATH).await;
    answer
        .when("of a published volume at another path")
        .refused_with(Code::NotFound)
}
