//! The Controller service. Each RPC checks its arguments here and does its work in a module of its own.
//!
//! Several controllers may run at once: the sidecar elects a leader among its own replicas, and where two drivers are
//! asked for the same volume all the same, both find what the array has and come to the same result.

use std::sync::Arc;

use stowage_csi::check::{Check, Rules};
use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Rpc;
use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest,
    DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse, ListVolumesRequest,
    ListVolumesResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
};
use tonic::{Request, Response, Status};

use super::concurrency::cluster_of;
use super::{Driver, answer};
use crate::handle;
use crate::metrics::Operation;

mod create;
mod delete;
mod expand;
mod inspect;
mod modify;
mod unknown;
mod volume;

/// With the legacy secret the driver can look for volumes by itself; what needs that comes last.
const OF_LEGACY_SECRET: &[Rpc] = &[
    Rpc::CreateDeleteVolume,
    Rpc::ExpandVolume,
    Rpc::ModifyVolume,
    Rpc::SingleNodeMultiWriter,
    Rpc::ListVolumes,
    Rpc::GetVolume,
    Rpc::GetCapacity,
    Rpc::VolumeCondition,
];

/// Without credentials of its own it knows no volumes but those it is asked about.
const OF_REQUESTS: &[Rpc] = OF_LEGACY_SECRET.split_at(4).0;

pub(crate) struct ControllerService(pub(crate) Arc<Driver>);

impl ControllerService {
    fn capabilities(&self) -> &'static [Rpc] {
        if self.0.clusters.expects_legacy_secret() {
            OF_LEGACY_SECRET
        } else {
            OF_REQUESTS
        }
    }

    /// The request, if it is complete.
    fn checked<R: Check>(&self, request: Request<R>) -> Result<R, Status> {
        let rules = Rules {
            id_bytes: handle::LONGEST,
            ..Rules::new(self.capabilities(), &[])
        };
        rules.checked(request)
    }

    /// What is not advertised is not there.
    fn needs(&self, rpc: Rpc) -> Result<(), Status> {
        if self.capabilities().contains(&rpc) {
            return Ok(());
        }
        Err(Status::unimplemented(
            "this call needs the legacy secret: mount it, and name it with --legacyvolumesecretname",
        ))
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

    /// Called twice: the volume that the first call made, if it is what the second asks for, else `ALREADY_EXISTS`; a
    /// volume that the first call left half-made is completed.
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let cluster = cluster_of(&request.secrets).to_owned();
        let bytes = |done: &CreateVolumeResponse| {
            let volume = done.volume.as_ref()?;
            u64::try_from(volume.capacity_bytes).ok()
        };
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(create::create(driver, request, deadline));
        let work = driver
            .concurrency
            .run(Operation::CreateVolume, &cluster, deadline, bytes, work);
        answer(deadline, work).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let cluster = cluster_of(&request.secrets).to_owned();
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(delete::delete(driver, request, deadline));
        let work =
            driver
                .concurrency
                .run(Operation::DeleteVolume, &cluster, deadline, |_| None, work);
        answer(deadline, work).await
    }

    /// Called twice: it is large enough already.
    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let cluster = cluster_of(&request.secrets).to_owned();
        let bytes = |done: &ControllerExpandVolumeResponse| u64::try_from(done.capacity_bytes).ok();
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(expand::expand(driver, request, deadline));
        let work = driver
            .concurrency
            .run(Operation::ExpandVolume, &cluster, deadline, bytes, work);
        answer(deadline, work).await
    }

    /// Called twice: it is as asked for already.
    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        let deadline = self.0.deadline(&request);
        let request = self.checked(request)?;
        answer(deadline, modify::modify(&self.0, request, deadline)).await
    }

    /// Called twice: the same answer.
    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let deadline = self.0.deadline(&request);
        let request = self.checked(request)?;
        answer(deadline, inspect::validate(&self.0, request, deadline)).await
    }

    /// Called twice: the same page, but for what came and went.
    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        self.needs(Rpc::ListVolumes)?;
        let deadline = self.0.deadline(&request);
        let request = self.checked(request)?;
        answer(deadline, inspect::list(&self.0, request, deadline)).await
    }

    /// Called twice: the same answer.
    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        self.needs(Rpc::GetVolume)?;
        let deadline = self.0.deadline(&request);
        let request = self.checked(request)?;
        answer(deadline, inspect::get(&self.0, request, deadline)).await
    }

    /// Called twice: what is left by then.
    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        self.needs(Rpc::GetCapacity)?;
        let deadline = self.0.deadline(&request);
        let request = self.checked(request)?;
        answer(deadline, inspect::capacity(&self.0, request, deadline)).await
    }
}
