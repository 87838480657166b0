//! The GroupController service: snapshots of several volumes at one moment. All of them are taken, or none is.

use std::sync::Arc;

use prost_types::Timestamp;
use stowage_csi::check::Rules;
use stowage_csi::proto::csi::group_controller_server::GroupController;
use stowage_csi::proto::csi::group_controller_service_capability::rpc::Type as Rpc;
use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse,
    GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse,
    VolumeGroupSnapshot,
};
use tonic::{Request, Response, Status};

use crate::controller::describe_snapshot;
use crate::driver::{Driver, answer, carry_out};
use crate::state::{GroupRecord, from_unix_ms};

mod create;
mod find;

pub(crate) struct GroupService(pub(crate) Arc<Driver>);

const RULES: Rules = Rules::new(&[], &[]);

#[tonic::async_trait]
impl GroupController for GroupService {
    /// Called twice: the same answer.
    async fn group_controller_get_capabilities(
        &self,
        _: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<GroupControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(GroupControllerGetCapabilitiesResponse {
            capabilities: vec![Rpc::CreateDeleteGetVolumeGroupSnapshot.into()],
        }))
    }

    /// Called twice: the group that the first call took; `ALREADY_EXISTS` if it is one of other volumes.
    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<CreateVolumeGroupSnapshotResponse>, Status> {
        let request = RULES.checked(request)?;
        carry_out(&self.0, create::create(self.0.clone(), request)).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<DeleteVolumeGroupSnapshotResponse>, Status> {
        let request = RULES.checked(request)?;
        carry_out(&self.0, find::delete(self.0.clone(), request)).await
    }

    /// Called twice: the same answer.
    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<GetVolumeGroupSnapshotResponse>, Status> {
        let request = RULES.checked(request)?;
        answer(find::get(&self.0, request).await)
    }
}

fn describe(group: &GroupRecord) -> VolumeGroupSnapshot {
    VolumeGroupSnapshot {
        group_snapshot_id: group.id.clone(),
        snapshots: group.members.iter().map(describe_snapshot).collect(),
        creation_time: Some(Timestamp::from(from_unix_ms(group.created_unix_ms))),
        ready_to_use: true,
    }
}
