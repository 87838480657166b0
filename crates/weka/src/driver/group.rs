//! The GroupController service: refused, with the reason.
//!
//! Weka takes a snapshot of one filesystem at a time, so volumes of several filesystems have no common moment. The service is
//! not advertised; whoever calls it all the same should know why.

use stowage_csi::proto::csi::group_controller_server::GroupController;
use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse,
};
use tonic::{Request, Response, Status};

pub(crate) struct GroupService;

#[tonic::async_trait]
impl GroupController for GroupService {
    /// Called twice: the same answer.
    async fn group_controller_get_capabilities(
        &self,
        _: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<GroupControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(
            GroupControllerGetCapabilitiesResponse::default(),
        ))
    }

    /// Called twice: the same answer.
    async fn create_volume_group_snapshot(
        &self,
        _: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<CreateVolumeGroupSnapshotResponse>, Status> {
        Err(Status::unimplemented(
            "Weka takes snapshots of one filesystem at a time, so a group of volumes has no common moment: take a snapshot of each volume",
        ))
    }
}
