//! `ControllerExpandVolume`.

use stowage_csi::proto::csi::ControllerExpandVolumeRequest;
use tonic::Code;

use crate::capability::{ControllerRpc, Need};
use crate::case::{Case, Group};
use crate::check::{Checked, same};
use crate::scene::{Scene, exactly};

pub(super) const EXPAND: Group = Group {
    name: "ControllerExpandVolume",
    needs: &[Need::Controller(ControllerRpc::ExpandVolume)],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(without_id(scene))
        }),
        Case::new("refuses a request without a capacity_range", |scene| {
            Box::pin(without_range(scene))
        }),
        Case::new("expands a volume that is not published", |scene| {
            Box::pin(expand(scene))
        })
        .needs(&[Need::Controller(ControllerRpc::CreateDeleteVolume)]),
    ],
};

fn request(scene: &Scene, volume_id: &str) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(exactly(scene.options().expand_size)),
        volume_capability: Some(scene.capability()),
        ..Default::default()
    }
}

async fn without_id(scene: &mut Scene) -> Checked {
    let answer = scene.controller_expand(request(scene, "")).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

/// csi-sanity leaves out the id as well; a driver that only noticed that would never be asked about the range.
async fn without_range(scene: &mut Scene) -> Checked {
    let mut request = request(scene, "");
    request.capacity_range = None;
    let answer = scene.controller_expand(request.clone()).await;
    answer
        .when("without a volume id and a capacity_range")
        .refused_with(Code::InvalidArgument)?;

    request.volume_id = scene.some_volume().await?;
    let answer = scene.controller_expand(request).await;
    answer
        .when("without a capacity_range")
        .refused_with(Code::InvalidArgument)
}

/// The limit is the size, so that no other answer is right.
async fn expand(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    let request = request(scene, &volume.volume_id);
    let answer = scene.controller_expand(request).await.ok()?;
    same(
        "capacity_bytes in ControllerExpandVolume",
        &scene.options().expand_size,
        &answer.capacity_bytes,
    )
}
