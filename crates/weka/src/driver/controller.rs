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
    ControllerModifyVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
};
use tonic::{Request, Response, Status};

use super::concurrency::Counted;
use super::{Driver, answer};
use crate::handle::{self, Backing, Handle};
use crate::metrics::Operation;
use crate::snapshot_id::SnapshotId;

mod create;
mod delete;
mod expand;
mod inspect;
mod list;
mod modify;
mod snapshot;
mod unknown;
mod volume;

/// What the driver can do with the secrets of requests.
const OF_REQUESTS: &[Rpc] = &[
    Rpc::CreateDeleteVolume,
    Rpc::ExpandVolume,
    Rpc::ModifyVolume,
    Rpc::SingleNodeMultiWriter,
];

/// With credentials of its own it can look for volumes by itself: those of the legacy secret, or those that Kubernetes
/// has for its volumes.
const OF_CREDENTIALS: &[Rpc] = &[Rpc::ListVolumes, Rpc::GetVolume, Rpc::VolumeCondition];

pub(crate) struct ControllerService(pub(crate) Arc<Driver>);

impl ControllerService {
    fn capabilities(&self) -> Vec<Rpc> {
        let volumes = &self.0.config.volumes;
        let mut rpcs = OF_REQUESTS.to_vec();
        if volumes.offer_snapshots {
            rpcs.push(Rpc::CreateDeleteSnapshot);
        }
        if volumes.offer_clones {
            rpcs.push(Rpc::CloneVolume);
        }
        let has_legacy_secret = self.0.clusters.expects_legacy_secret();
        if has_legacy_secret || self.0.inventory.is_some() {
            rpcs.extend(OF_CREDENTIALS);
        }
        if has_legacy_secret {
            rpcs.push(Rpc::GetCapacity);
        }
        if volumes.offer_snapshots && self.0.inventory.is_some() {
            rpcs.push(Rpc::ListSnapshots);
        }
        rpcs
    }

    /// The request, if it is complete.
    fn checked<R: Check>(&self, request: Request<R>) -> Result<R, Status> {
        let capabilities = self.capabilities();
        let rules = Rules {
            id_bytes: handle::LONGEST,
            ..Rules::new(&capabilities, &[])
        };
        rules.checked(request)
    }

    /// What is not advertised is not there.
    fn needs(&self, rpc: Rpc) -> Result<(), Status> {
        if self.capabilities().contains(&rpc) {
            return Ok(());
        }
        let reason = match rpc {
            Rpc::CreateDeleteSnapshot => {
                "snapshots are switched off by --suppresssnapshotcapability"
            }
            Rpc::ListSnapshots => "this call needs access to Kubernetes, which has the snapshots",
            Rpc::GetCapacity => {
                "this call needs the legacy secret: mount it, and name it with --legacyvolumesecretname"
            }
            _ => {
                "this call needs the legacy secret (mount it, and name it with --legacyvolumesecretname), or access to Kubernetes"
            }
        };
        Err(Status::unimplemented(reason))
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    /// Called twice: the same answer.
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(self.capabilities().as_slice().into()))
    }

    /// Called twice: the volume that the first call made, if it is what the second asks for, else `ALREADY_EXISTS`; a
    /// volume that the first call left half-made is completed.
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let operation = Operation::CreateVolume;
        let backing = Some(create::backing(&request));
        let counted = Counted::by_cluster(operation, &request.secrets, backing);
        let bytes = |done: &CreateVolumeResponse| {
            let volume = done.volume.as_ref()?;
            u64::try_from(volume.capacity_bytes).ok()
        };
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(create::create(driver, request, deadline));
        let work = driver.concurrency.run(counted, deadline, bytes, work);
        answer(deadline, work).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let backing = backing(&request.volume_id);
        let operation = Operation::DeleteVolume;
        let counted = Counted::by_cluster(operation, &request.secrets, backing);
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(delete::delete(driver, request, deadline));
        let work = driver.concurrency.run(counted, deadline, |_| None, work);
        answer(deadline, work).await
    }

    /// Called twice: it is large enough already.
    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let backing = backing(&request.volume_id);
        let operation = Operation::ExpandVolume;
        let counted = Counted::by_cluster(operation, &request.secrets, backing);
        let bytes = |done: &ControllerExpandVolumeResponse| u64::try_from(done.capacity_bytes).ok();
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(expand::expand(driver, request, deadline));
        let work = driver.concurrency.run(counted, deadline, bytes, work);
        answer(deadline, work).await
    }

    /// Called twice: the snapshot that the first call made.
    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        self.needs(Rpc::CreateDeleteSnapshot)?;
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let backing = backing(&request.source_volume_id);
        let operation = Operation::CreateSnapshot;
        let counted = Counted::by_cluster(operation, &request.secrets, backing);
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(snapshot::create(driver, request, deadline));
        let work = driver.concurrency.run(counted, deadline, |_| None, work);
        answer(deadline, work).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        self.needs(Rpc::CreateDeleteSnapshot)?;
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = self.checked(request)?;
        let id = SnapshotId::parse(&request.snapshot_id).ok();
        let backing = id.map(|id| id.view().backing());
        let operation = Operation::DeleteSnapshot;
        let counted = Counted::by_cluster(operation, &request.secrets, backing);
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(snapshot::delete(driver, request, deadline));
        let work = driver.concurrency.run(counted, deadline, |_| None, work);
        answer(deadline, work).await
    }

    /// Called twice: the same page, but for what came and went.
    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        self.needs(Rpc::ListSnapshots)?;
        let deadline = self.0.deadline(&request);
        let request = self.checked(request)?;
        answer(deadline, list::snapshots(&self.0, request, deadline)).await
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
        answer(deadline, list::list(&self.0, request, deadline)).await
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

/// What a volume is, if its handle can be read.
fn backing(volume_id: &str) -> Option<Backing> {
    let handle = Handle::parse(volume_id).ok()?;
    Some(handle.backing())
}
