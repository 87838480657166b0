//! The Controller service: what can be done with a volume from anywhere. Each RPC checks its arguments here and does
//! its work in a module of its own.

use std::sync::Arc;

use stowage_csi::check::{Check, Rules};
use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Rpc;
use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    ListVolumesRequest, ListVolumesResponse, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse,
};
use tonic::{Request, Response, Status};

pub(crate) use self::expand::check_access;
use crate::driver::{Driver, answer, carry_out};

mod attach;
mod create;
mod delete;
mod expand;
mod inspect;
mod modify;
mod snapshot;

pub(crate) use self::snapshot::describe as describe_snapshot;

/// Those for attaching are the last.
const WITH_ATTACH: &[Rpc] = &[
    Rpc::CreateDeleteVolume,
    Rpc::ListVolumes,
    Rpc::GetCapacity,
    Rpc::CreateDeleteSnapshot,
    Rpc::ListSnapshots,
    Rpc::CloneVolume,
    Rpc::ExpandVolume,
    Rpc::VolumeCondition,
    Rpc::GetVolume,
    Rpc::SingleNodeMultiWriter,
    Rpc::GetSnapshot,
    Rpc::ModifyVolume,
    Rpc::PublishUnpublishVolume,
    Rpc::PublishReadonly,
    Rpc::ListVolumesPublishedNodes,
];

const WITHOUT_ATTACH: &[Rpc] = WITH_ATTACH.split_at(12).0;

pub(crate) struct ControllerService(pub(crate) Arc<Driver>);

impl ControllerService {
    fn capabilities(&self) -> &'static [Rpc] {
        if self.0.config.attach {
            WITH_ATTACH
        } else {
            WITHOUT_ATTACH
        }
    }

    /// The request, if it is complete.
    fn checked<R: Check>(&self, request: Request<R>) -> Result<R, Status> {
        Rules::new(self.capabilities(), &[]).checked(request)
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    /// Called twice: the same answer.
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(self.capabilities().into()))
    }

    /// Called twice: the volume that the first call made, if it is what the second asks for; else `ALREADY_EXISTS`.
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = self.checked(request)?;
        carry_out(&self.0, create::create_volume(self.0.clone(), request)).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let request = self.checked(request)?;
        carry_out(&self.0, delete::delete_volume(self.0.clone(), request)).await
    }

    /// Called twice: it is attached already.
    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        self.needs_attach()?;
        let request = self.checked(request)?;
        carry_out(&self.0, attach::publish(self.0.clone(), request)).await
    }

    /// Called twice: it is not attached any more.
    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        self.needs_attach()?;
        let request = self.checked(request)?;
        carry_out(&self.0, attach::unpublish(self.0.clone(), request)).await
    }

    /// Called twice: the same answer.
    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = self.checked(request)?;
        answer(inspect::validate(&self.0, request).await)
    }

    /// Called twice: the same page, but for what came and went.
    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let request = self.checked(request)?;
        answer(inspect::list_volumes(&self.0, request).await)
    }

    /// Called twice: the same answer.
    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let request = self.checked(request)?;
        answer(inspect::get_volume(&self.0, request).await)
    }

    /// Called twice: what is left by then.
    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        let request = self.checked(request)?;
        answer(inspect::get_capacity(&self.0, request).await)
    }

    /// Called twice: the snapshot that the first call took; `ALREADY_EXISTS` if it is one of another volume.
    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let request = self.checked(request)?;
        carry_out(&self.0, snapshot::create(self.0.clone(), request)).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        let request = self.checked(request)?;
        carry_out(&self.0, snapshot::delete(self.0.clone(), request)).await
    }

    /// Called twice: the same page, but for what came and went.
    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        let request = self.checked(request)?;
        answer(snapshot::list(&self.0, request).await)
    }

    /// Called twice: the same answer.
    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        let request = self.checked(request)?;
        answer(snapshot::get(&self.0, request).await)
    }

    /// Called twice: it is large enough already.
    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let request = self.checked(request)?;
        carry_out(&self.0, expand::expand(self.0.clone(), request)).await
    }

    /// Called twice: it is as asked for already.
    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        let request = self.checked(request)?;
        carry_out(&self.0, modify::modify(self.0.clone(), request)).await
    }
}

impl ControllerService {
    /// What is not advertised is not there.
    fn needs_attach(&self) -> Result<(), Status> {
        if self.0.config.attach {
            return Ok(());
        }
        Err(Status::unimplemented(
            "volumes of this driver are not attached unless it is started with --enable-attach",
        ))
    }
}
