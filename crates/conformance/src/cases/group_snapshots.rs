//! Snapshots of groups of volumes.

use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotRequest, GroupControllerGetCapabilitiesRequest,
};
use tonic::Code;

use super::identity::is_known;
use crate::capability::{GroupRpc, Need, Service, group_rpc_of};
use crate::case::{Case, Group};
use crate::check::{Checked, ask, ensure};
use crate::scene::Scene;

const SNAPSHOTS: &[Need] = &[Need::Group(GroupRpc::CreateDeleteGetVolumeGroupSnapshot)];

pub(super) const GROUP_SNAPSHOTS: Group = Group {
    name: "GroupController",
    needs: &[Need::Plugin(Service::GroupControllerService)],
    cases: &[
        Case::new("lists known capabilities only", |scene| {
            Box::pin(known_capabilities(scene))
        }),
        Case::new(
            "CreateVolumeGroupSnapshot refuses a request without a name",
            |scene| Box::pin(create_without_name(scene)),
        )
        .needs(SNAPSHOTS),
        Case::new(
            "GetVolumeGroupSnapshot refuses a request without an id",
            |scene| Box::pin(get_without_id(scene)),
        )
        .needs(SNAPSHOTS),
        Case::new(
            "GetVolumeGroupSnapshot does not find a group that does not exist",
            |scene| Box::pin(get_unknown(scene)),
        )
        .needs(SNAPSHOTS),
        Case::new(
            "DeleteVolumeGroupSnapshot refuses a request without an id",
            |scene| Box::pin(delete_without_id(scene)),
        )
        .needs(SNAPSHOTS),
        Case::new(
            "DeleteVolumeGroupSnapshot succeeds for a group that does not exist",
            |scene| Box::pin(delete_unknown(scene)),
        )
        .needs(SNAPSHOTS),
    ],
};

async fn known_capabilities(scene: &mut Scene) -> Checked {
    let mut group = scene.driver().group();
    let call = group.group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest {});
    let answer = ask("GroupControllerGetCapabilities", call).await.ok()?;
    ensure(
        !answer.capabilities.is_empty(),
        "GroupControllerGetCapabilities",
        "at least one capability",
        "none",
    )?;
    for capability in answer.capabilities {
        let value = group_rpc_of(capability).unwrap_or_default();
        ensure(
            is_known(GroupRpc::try_from(value), GroupRpc::Unknown),
            "GroupControllerGetCapabilities",
            "types that the specification knows",
            format!("the type {value}"),
        )?;
    }
    Ok(())
}

async fn create_without_name(scene: &mut Scene) -> Checked {
    let request = CreateVolumeGroupSnapshotRequest {
        source_volume_ids: vec![scene.some_volume().await?],
        parameters: scene.options().snapshot_parameters.clone(),
        ..Default::default()
    };
    let answer = scene.create_group_snapshot(request).await;
    answer
        .when("without a name")
        .refused_with(Code::InvalidArgument)
}

async fn get_without_id(scene: &mut Scene) -> Checked {
    let request = GetVolumeGroupSnapshotRequest::default();
    let answer = scene.get_group_snapshot(request).await;
    answer
        .when("without an id")
        .refused_with(Code::InvalidArgument)
}

async fn get_unknown(scene: &mut Scene) -> Checked {
    let request = GetVolumeGroupSnapshotRequest {
        group_snapshot_id: scene.unknown_snapshot(),
        ..Default::default()
    };
    let answer = scene.get_group_snapshot(request).await;
    answer
        .when("of a group that does not exist")
        .refused_with(Code::NotFound)
}

async fn delete_without_id(scene: &mut Scene) -> Checked {
    let request = DeleteVolumeGroupSnapshotRequest::default();
    let answer = scene.delete_group_snapshot(request).await;
    answer
        .when("without an id")
        .refused_with(Code::InvalidArgument)
}

async fn delete_unknown(scene: &mut Scene) -> Checked {
    let request = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: scene.unknown_snapshot(),
        ..Default::default()
    };
    let answer = scene.delete_group_snapshot(request).await;
    answer.when("of a group that does not exist").ok()?;
    Ok(())
}
