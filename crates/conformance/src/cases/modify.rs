//! `ControllerModifyVolume`.

use std::collections::BTreeMap;

use stowage_csi::proto::csi::{ControllerModifyVolumeRequest, Volume};
use tonic::Code;

use crate::capability::{ControllerRpc, Need};
use crate::case::{Case, Group};
use crate::check::Checked;
use crate::scene::Scene;

pub(super) const MODIFY: Group = Group {
    name: "ControllerModifyVolume",
    needs: &[
        Need::Controller(ControllerRpc::ModifyVolume),
        Need::Controller(ControllerRpc::CreateDeleteVolume),
    ],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(without_id(scene))
        }),
        Case::new("does not find a volume that does not exist", |scene| {
            Box::pin(unknown_volume(scene))
        }),
        Case::new("refuses an unknown parameter for a plain volume", |scene| {
            Box::pin(unknown_parameter_of_plain_volume(scene))
        }),
        Case::new("modifies a plain volume", |scene| {
            Box::pin(plain_volume(scene))
        }),
        Case::new(
            "modifies a volume that was made with mutable parameters",
            |scene| Box::pin(parametrised_volume(scene)),
        ),
        Case::new(
            "refuses an unknown parameter for a volume that was made with mutable parameters",
            |scene| Box::pin(unknown_parameter_of_parametrised_volume(scene)),
        ),
    ],
};

/// A mutable parameter that no driver knows.
pub(super) fn unknown_parameter() -> BTreeMap<String, String> {
    [("XXX_FakeKey".to_owned(), "XXX_FakeValue".to_owned())].into()
}

fn request(scene: &Scene, volume_id: &str) -> ControllerModifyVolumeRequest {
    ControllerModifyVolumeRequest {
        volume_id: volume_id.to_owned(),
        mutable_parameters: scene.options().mutable_parameters.clone(),
        ..Default::default()
    }
}

async fn volume_with_parameters(scene: &mut Scene) -> Checked<Volume> {
    let mut request = scene.volume_request();
    request.mutable_parameters = scene.options().mutable_parameters.clone();
    scene.create_volume(request).await.volume()
}

async fn without_id(scene: &mut Scene) -> Checked {
    let answer = scene.modify(request(scene, "")).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn unknown_volume(scene: &mut Scene) -> Checked {
    let id = scene.unknown_volume();
    let answer = scene.modify(request(scene, &id)).await;
    answer
        .when("of a volume that does not exist")
        .refused_with(Code::NotFound)
}

async fn refuses_unknown_parameter(scene: &mut Scene, volume: &Volume) -> Checked {
    let request = ControllerModifyVolumeRequest {
        mutable_parameters: unknown_parameter(),
        ..request(scene, &volume.volume_id)
    };
    let answer = scene.modify(request).await;
    answer
        .when("with an unknown parameter")
        .refused_with(Code::InvalidArgument)
}

async fn unknown_parameter_of_plain_volume(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    refuses_unknown_parameter(scene, &volume).await
}

async fn unknown_parameter_of_parametrised_volume(scene: &mut Scene) -> Checked {
    let volume = volume_with_parameters(scene).await?;
    refuses_unknown_parameter(scene, &volume).await
}

async fn plain_volume(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    scene.modify(request(scene, &volume.volume_id)).await.ok()?;
    Ok(())
}

async fn parametrised_volume(scene: &mut Scene) -> Checked {
    let volume = volume_with_parameters(scene).await?;
    scene.modify(request(scene, &volume.volume_id)).await.ok()?;
    Ok(())
}
