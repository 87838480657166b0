//! `NodeExpandVolume`.

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{ControllerExpandVolumeRequest, NodeExpandVolumeRequest};
use tonic::Code;

use super::node_stats::NO_PATH;
use crate::capability::{ControllerRpc, Need, NodeRpc};
use crate::case::{Case, Group};
use crate::check::Checked;
use crate::scene::{Scene, exactly};

pub(super) const EXPAND: Group = Group {
    name: "NodeExpandVolume",
    needs: &[Need::Node(NodeRpc::ExpandVolume)],
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
        Case::new("expands a published volume", |scene| {
            Box::pin(expand(scene))
        })
        .needs(&[Need::Controller(ControllerRpc::CreateDeleteVolume)]),
    ],
};

fn request(scene: &Scene, volume_id: String, path: &str) -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        volume_id,
        volume_path: path.to_owned(),
        capacity_range: Some(exactly(scene.options().expand_size)),
        volume_capability: Some(scene.capability()),
        ..Default::default()
    }
}

async fn without_volume(scene: &mut Scene) -> Checked {
    let request = request(scene, String::new(), NO_PATH);
    let answer = scene.node_expand(request).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn without_path(scene: &mut Scene) -> Checked {
    let volume_id = scene.some_volume().await?;
    let request = request(scene, volume_id, "");
    let answer = scene.node_expand(request).await;
    answer
        .when("without a volume path")
        .refused_with(Code::InvalidArgument)
}

async fn unknown_volume(scene: &mut Scene) -> Checked {
    let volume_id = scene.unknown_volume();
    let request = request(scene, volume_id, NO_PATH);
    let answer = scene.node_expand(request).await;
    answer
        .when("of a volume that does not exist")
        .refused_with(Code::NotFound)
}

/// The controller goes first: before the volume is attached if the driver cannot expand a volume in use.
async fn expand(scene: &mut Scene) -> Checked {
    let controller_expands = scene.has(Need::Controller(ControllerRpc::ExpandVolume))?;
    let offline = scene.driver().facts.expands_offline_only()?;
    let volume = scene.volume_here().await?;
    if controller_expands && offline {
        expand_in_controller(scene, &volume.volume_id).await?;
    }
    let flow = scene.attach(volume, Mode::SingleNodeWriter).await?;
    scene.stage(&flow).await?;
    scene.node_publish(flow.publish_request()).await.ok()?;
    if controller_expands && !offline {
        expand_in_controller(scene, &flow.volume.volume_id).await?;
    }
    let mut request = request(scene, flow.volume.volume_id, &flow.target);
    request.staging_target_path = flow.staging;
    scene.node_expand(request).await.ok()?;
    Ok(())
}

async fn expand_in_controller(scene: &Scene, volume_id: &str) -> Checked {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(exactly(scene.options().expand_size)),
        volume_capability: Some(scene.capability()),
        ..Default::default()
    };
    scene.controller_expand(request).await.ok()?;
    Ok(())
}
