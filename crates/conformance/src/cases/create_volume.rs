//! `CreateVolume`.

use stowage_csi::proto::csi::volume_content_source::{
    SnapshotSource, Type as Source, VolumeSource,
};
use stowage_csi::proto::csi::{Volume, VolumeContentSource};
use tonic::Code;

use super::modify::unknown_parameter;
use crate::capability::{ControllerRpc, Need};
use crate::case::{Case, Group};
use crate::check::{Checked, Stop, describe, ensure, same};
use crate::scene::{Scene, exactly};

const SNAPSHOT: Need = Need::Controller(ControllerRpc::CreateDeleteSnapshot);
const CLONE: Need = Need::Controller(ControllerRpc::CloneVolume);
const MODIFY: Need = Need::Controller(ControllerRpc::ModifyVolume);

pub(super) const CREATE: Group = Group {
    name: "CreateVolume",
    needs: &[Need::Controller(ControllerRpc::CreateDeleteVolume)],
    cases: &[
        Case::new("refuses a request without a name", |scene| {
            Box::pin(without_name(scene))
        }),
        Case::new("refuses a request without capabilities", |scene| {
            Box::pin(without_capabilities(scene))
        }),
        Case::new("makes a volume of a size of its choice", |scene| {
            Box::pin(without_size(scene))
        }),
        Case::new("makes a volume of the size it is asked for", |scene| {
            Box::pin(with_size(scene))
        }),
        Case::new("gives the same volume for the same request", |scene| {
            Box::pin(twice(scene))
        }),
        Case::new("refuses a known name with another size", |scene| {
            Box::pin(same_name_other_size(scene))
        }),
        Case::new("takes a name of 128 characters", |scene| {
            Box::pin(longest_name(scene))
        }),
        Case::new("makes a volume from a snapshot", |scene| {
            Box::pin(from_snapshot(scene))
        })
        .needs(&[SNAPSHOT]),
        Case::new("does not find a snapshot that does not exist", |scene| {
            Box::pin(from_unknown_snapshot(scene))
        })
        .needs(&[SNAPSHOT]),
        Case::new("makes a volume from a volume", |scene| {
            Box::pin(from_volume(scene))
        })
        .needs(&[CLONE]),
        Case::new(
            "does not find a source volume that does not exist",
            |scene| Box::pin(from_unknown_volume(scene)),
        )
        .needs(&[CLONE]),
        Case::new("takes mutable parameters", |scene| {
            Box::pin(mutable_parameters(scene))
        })
        .needs(&[MODIFY]),
        Case::new("refuses an unknown mutable parameter", |scene| {
            Box::pin(unknown_mutable_parameter(scene))
        })
        .needs(&[MODIFY]),
    ],
};

async fn without_name(scene: &mut Scene) -> Checked {
    let mut request = scene.volume_request();
    request.name.clear();
    let answer = scene.create_volume(request).await;
    answer
        .when("without a name")
        .refused_with(Code::InvalidArgument)
}

async fn without_capabilities(scene: &mut Scene) -> Checked {
    let mut request = scene.volume_request();
    request.volume_capabilities.clear();
    let answer = scene.create_volume(request).await;
    answer
        .when("without capabilities")
        .refused_with(Code::InvalidArgument)
}

async fn without_size(scene: &mut Scene) -> Checked {
    let mut request = scene.volume_request();
    request.capacity_range = None;
    let answer = scene.create_volume(request).await;
    answer.when("without a capacity_range").volume()?;
    Ok(())
}

async fn with_size(scene: &mut Scene) -> Checked {
    let request = scene.volume_request();
    let answer = scene.create_volume(request).await;
    if let Err(status) = answer.result()
        && matches!(status.code(), Code::OutOfRange | Code::Unimplemented)
    {
        let (size, answer) = (scene.options().volume_size, describe(status));
        return Err(Stop::Skipped(format!(
            "the driver has no volumes of {size} bytes ({answer}); choose another --volume-size"
        )));
    }
    large_enough(scene, &answer.volume()?)
}

/// Zero means that the driver does not know.
fn large_enough(scene: &Scene, volume: &Volume) -> Checked {
    let asked = scene.options().volume_size;
    let got = volume.capacity_bytes;
    ensure(
        got == 0 || got >= asked,
        "capacity_bytes of the new volume",
        format!("at least {asked}, or 0 for unknown"),
        got.to_string(),
    )
}

async fn twice(scene: &mut Scene) -> Checked {
    let request = scene.volume_request();
    let first = scene.create_volume(request.clone()).await.volume()?;
    large_enough(scene, &first)?;
    let answer = scene.create_volume(request).await;
    let second = answer.when("for the second time").volume()?;
    large_enough(scene, &second)?;
    same(
        "volume_id of the second CreateVolume",
        &first.volume_id,
        &second.volume_id,
    )
}

async fn same_name_other_size(scene: &mut Scene) -> Checked {
    let size = scene.options().volume_size;
    let mut request = scene.volume_request();
    request.capacity_range = Some(exactly(size));
    scene.create_volume(request.clone()).await.volume()?;
    request.capacity_range = Some(exactly(size.saturating_mul(2)));
    let answer = scene.create_volume(request).await;
    answer
        .when("with a known name and twice the size")
        .refused_with(Code::AlreadyExists)
}

async fn longest_name(scene: &mut Scene) -> Checked {
    let mut request = scene.volume_request();
    request.name = scene.longest_name();
    let answer = scene.create_volume(request).await;
    answer.when("with a name of 128 characters").volume()?;
    Ok(())
}

fn snapshot_source(id: &str) -> VolumeContentSource {
    let snapshot_id = id.to_owned();
    VolumeContentSource {
        r#type: Some(Source::Snapshot(SnapshotSource { snapshot_id })),
    }
}

fn volume_source(id: &str) -> VolumeContentSource {
    let volume_id = id.to_owned();
    VolumeContentSource {
        r#type: Some(Source::Volume(VolumeSource { volume_id })),
    }
}

fn name_of(source: Option<&VolumeContentSource>) -> String {
    match source.and_then(|source| source.r#type.as_ref()) {
        None => "none".to_owned(),
        Some(Source::Snapshot(source)) => format!("snapshot `{}`", source.snapshot_id),
        Some(Source::Volume(source)) => format!("volume `{}`", source.volume_id),
    }
}

/// The provisioner of Kubernetes throws a restored volume away whose answer does not name the source.
async fn from_snapshot(scene: &mut Scene) -> Checked {
    let origin = scene.volume().await?;
    let snapshot = scene.ready_snapshot(&origin.volume_id).await?;
    let source = snapshot_source(&snapshot.snapshot_id);
    let mut request = scene.volume_request();
    request.volume_content_source = Some(source.clone());
    let answer = scene.create_volume(request).await;
    let volume = answer.when("from a snapshot").volume()?;
    ensure(
        volume.content_source.as_ref() == Some(&source),
        "content_source of a volume from a snapshot",
        name_of(Some(&source)),
        name_of(volume.content_source.as_ref()),
    )
}

async fn from_unknown_snapshot(scene: &mut Scene) -> Checked {
    let id = scene.unknown_snapshot();
    let mut request = scene.volume_request();
    request.volume_content_source = Some(snapshot_source(&id));
    let answer = scene.create_volume(request).await;
    answer
        .when("from a snapshot that does not exist")
        .refused_with(Code::NotFound)
}

async fn from_volume(scene: &mut Scene) -> Checked {
    let origin = scene.volume().await?;
    let source = volume_source(&origin.volume_id);
    let mut request = scene.volume_request();
    request.volume_content_source = Some(source.clone());
    let answer = scene.create_volume(request).await;
    let volume = answer.when("from a volume").volume()?;
    let named = volume.content_source.as_ref();
    ensure(
        named.is_none() || named == Some(&source),
        "content_source of a volume from a volume",
        name_of(Some(&source)),
        name_of(named),
    )
}

async fn from_unknown_volume(scene: &mut Scene) -> Checked {
    let id = scene.unknown_volume();
    let mut request = scene.volume_request();
    request.volume_content_source = Some(volume_source(&id));
    let answer = scene.create_volume(request).await;
    answer
        .when("from a volume that does not exist")
        .refused_with(Code::NotFound)
}

async fn mutable_parameters(scene: &mut Scene) -> Checked {
    let mut request = scene.volume_request();
    request.mutable_parameters = scene.options().mutable_parameters.clone();
    let answer = scene.create_volume(request).await;
    answer.when("with mutable parameters").volume()?;
    Ok(())
}

async fn unknown_mutable_parameter(scene: &mut Scene) -> Checked {
    let mut request = scene.volume_request();
    request.mutable_parameters = unknown_parameter();
    let answer = scene.create_volume(request).await;
    answer
        .when("with an unknown mutable parameter")
        .refused_with(Code::InvalidArgument)
}
