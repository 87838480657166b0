//! `ListVolumes`, `DeleteVolume` and `ValidateVolumeCapabilities`.

use stowage_csi::proto::csi::{
    DeleteVolumeRequest, ListVolumesRequest, ValidateVolumeCapabilitiesRequest,
};
use tonic::Code;

use crate::capability::{ControllerRpc, Need, Service};
use crate::case::{Case, Group};
use crate::check::{Checked, ensure, same};
use crate::scene::Scene;

const CREATE_DELETE: Need = Need::Controller(ControllerRpc::CreateDeleteVolume);

pub(super) const LIST: Group = Group {
    name: "ListVolumes",
    needs: &[Need::Controller(ControllerRpc::ListVolumes)],
    cases: &[
        Case::new("gives every volume an id", |scene| Box::pin(list(scene))),
        Case::new("refuses an invalid starting_token", |scene| {
            Box::pin(invalid_token(scene))
        }),
        Case::new(
            "shows a volume from its creation to its deletion",
            |scene| Box::pin(list_follows_volumes(scene)),
        )
        .needs(&[CREATE_DELETE])
        .alone(),
    ],
};

pub(super) const DELETE: Group = Group {
    name: "DeleteVolume",
    needs: &[CREATE_DELETE],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(delete_without_id(scene))
        }),
        Case::new("succeeds for a volume that does not exist", |scene| {
            Box::pin(delete_unknown(scene))
        }),
        Case::new("deletes a volume", |scene| Box::pin(delete(scene))),
    ],
};

pub(super) const VALIDATE: Group = Group {
    name: "ValidateVolumeCapabilities",
    needs: &[Need::Plugin(Service::ControllerService)],
    cases: &[
        Case::new("refuses a request without a volume id", |scene| {
            Box::pin(validate_without_id(scene))
        }),
        Case::new("refuses a request without capabilities", |scene| {
            Box::pin(validate_without_capabilities(scene))
        })
        .needs(&[CREATE_DELETE]),
        Case::new("names the capabilities that it confirms", |scene| {
            Box::pin(validate(scene))
        })
        .needs(&[CREATE_DELETE]),
        Case::new("does not find a volume that does not exist", |scene| {
            Box::pin(validate_unknown(scene))
        }),
    ],
};

/// A driver without volumes would pass without being looked at, so there is one if possible.
async fn list(scene: &mut Scene) -> Checked {
    if scene.has(CREATE_DELETE)? {
        scene.volume().await?;
    }
    scene.all_volumes().await?;
    Ok(())
}

async fn invalid_token(scene: &mut Scene) -> Checked {
    let request = ListVolumesRequest {
        starting_token: "invalid-token".to_owned(),
        ..Default::default()
    };
    let answer = scene.list_volumes(request).await;
    answer
        .when("with an invalid starting_token")
        .refused_with(Code::Aborted)
}

async fn list_follows_volumes(scene: &mut Scene) -> Checked {
    let before = scene.all_volumes().await?;
    let id = scene.volume().await?.volume_id;

    let with = scene.all_volumes().await?;
    ensure(
        with.contains(&id),
        "ListVolumes after CreateVolume",
        format!("an entry for `{id}`"),
        "none",
    )?;
    let expected = before.len() + 1;
    same(
        "number of volumes after CreateVolume",
        &expected,
        &with.len(),
    )?;

    scene.delete_volume(delete_request(&id)).await.ok()?;
    let after = scene.all_volumes().await?;
    ensure(
        !after.contains(&id),
        "ListVolumes after DeleteVolume",
        format!("no entry for `{id}`"),
        "one",
    )?;
    same(
        "number of volumes after DeleteVolume",
        &before.len(),
        &after.len(),
    )
}

fn delete_request(id: &str) -> DeleteVolumeRequest {
    DeleteVolumeRequest {
        volume_id: id.to_owned(),
        ..Default::default()
    }
}

async fn delete_without_id(scene: &mut Scene) -> Checked {
    let answer = scene.delete_volume(delete_request("")).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn delete_unknown(scene: &mut Scene) -> Checked {
    let id = scene.unknown_volume();
    let answer = scene.delete_volume(delete_request(&id)).await;
    answer.when("of a volume that does not exist").ok()?;
    Ok(())
}

async fn delete(scene: &mut Scene) -> Checked {
    let id = scene.volume().await?.volume_id;
    scene.delete_volume(delete_request(&id)).await.ok()?;
    Ok(())
}

fn validate_request(scene: &Scene, id: &str) -> ValidateVolumeCapabilitiesRequest {
    ValidateVolumeCapabilitiesRequest {
        volume_id: id.to_owned(),
        volume_capabilities: vec![scene.capability()],
        ..Default::default()
    }
}

async fn validate_without_id(scene: &mut Scene) -> Checked {
    let answer = scene.validate(validate_request(scene, "")).await;
    answer
        .when("without a volume id")
        .refused_with(Code::InvalidArgument)
}

async fn validate_without_capabilities(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    let mut request = validate_request(scene, &volume.volume_id);
    request.volume_capabilities.clear();
    let answer = scene.validate(request).await;
    answer
        .when("without capabilities")
        .refused_with(Code::InvalidArgument)
}

/// A driver may decline to confirm; what it confirms it has to name.
async fn validate(scene: &mut Scene) -> Checked {
    let volume = scene.volume().await?;
    let mut request = validate_request(scene, &volume.volume_id);
    request.volume_context = volume.volume_context;
    request.parameters = scene.options().volume_parameters.clone();
    let Some(confirmed) = scene.validate(request).await.ok()?.confirmed else {
        return Ok(());
    };
    ensure(
        !confirmed.volume_capabilities.is_empty(),
        "confirmed.volume_capabilities in ValidateVolumeCapabilities",
        "the capabilities that were confirmed",
        "none",
    )
}

async fn validate_unknown(scene: &mut Scene) -> Checked {
    let id = scene.unknown_volume();
    let answer = scene.validate(validate_request(scene, &id)).await;
    answer
        .when("of a volume that does not exist")
        .refused_with(Code::NotFound)
}
