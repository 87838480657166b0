//! The Controller service. Each RPC checks its arguments here and does its work in a module of its own.

mod attach;
mod create;
mod delete;
mod expand;
mod inspect;
mod snapshot;
mod source;

use std::sync::Arc;
use std::time::Duration;

use stowage_csi::check::{Check, Rules};
use stowage_csi::locks::VolumeLocks;
use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Rpc;
use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
};
use stowage_rest::Deadline;
use tonic::{Request, Response, Status};

use super::error::Error;
use super::objects::Objects;
use super::{answer, deadline};

const CAPABILITIES: &[Rpc] = &[
    Rpc::CreateDeleteVolume,
    Rpc::PublishUnpublishVolume,
    Rpc::PublishReadonly,
    Rpc::ListVolumes,
    Rpc::ListVolumesPublishedNodes,
    Rpc::GetVolume,
    Rpc::VolumeCondition,
    Rpc::GetCapacity,
    Rpc::CreateDeleteSnapshot,
    Rpc::ListSnapshots,
    Rpc::CloneVolume,
    Rpc::ExpandVolume,
    Rpc::SingleNodeMultiWriter,
];

/// As long as names of objects can be.
const LONGEST_ID: usize = 253;

/// The Controller service.
#[derive(Clone)]
pub struct ControllerService(pub Arc<Services>);

/// What the calls share.
pub struct Services {
    /// Custom resources.
    pub objects: Objects,
    /// One call per volume at a time.
    pub locks: VolumeLocks,
    /// How long a call may take, even if its caller would wait longer.
    pub longest: Duration,
    /// Nodes say where they are, and volumes from where they are reached.
    pub has_topology: bool,
}

impl ControllerService {
    /// The request, if it is complete, and until when it must be answered.
    fn checked<R: Check>(&self, request: Request<R>) -> Result<(R, Deadline), Status> {
        let deadline = deadline(&request, self.0.longest);
        let rules = Rules {
            id_bytes: LONGEST_ID,
            ..Rules::new(CAPABILITIES, &[])
        };
        Ok((rules.checked(request)?, deadline))
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    /// Called twice: the same answer.
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(CAPABILITIES.into()))
    }

    /// Called twice: the volume that the first call made, if it is what the second asks for, else `ALREADY_EXISTS`.
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(Box::pin(create::create(&self.0, request, deadline))).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(delete::delete(&self.0, request, deadline)).await
    }

    /// Called twice: it is attached already.
    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(Box::pin(attach::publish(&self.0, request, deadline))).await
    }

    /// Called twice: it is not attached any more.
    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(attach::unpublish(&self.0, request, deadline)).await
    }

    /// Called twice: it is large enough already.
    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(expand::expand(&self.0, request, deadline)).await
    }

    /// Called twice: the snapshot that the first call took, if it is of the same volume, else `ALREADY_EXISTS`.
    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(snapshot::create(&self.0, request, deadline)).await
    }

    /// Called twice: the second call finds nothing to delete, which is success.
    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        let (request, deadline) = self.checked(request)?;
        answer(snapshot::delete(&self.0, request, deadline)).await
    }

    /// Called twice: the same page, but for what came and went.
    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        let (request, _) = self.checked(request)?;
        Ok(Response::new(snapshot::list(&self.0, &request)?))
    }

    /// Called twice: the same answer.
    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let (request, _) = self.checked(request)?;
        answer(inspect::validate(&self.0, request)).await
    }

    /// Called twice: the same page, but for what came and went.
    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let (request, _) = self.checked(request)?;
        Ok(Response::new(inspect::list(&self.0, &request)?))
    }

    /// Called twice: the same answer.
    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let (request, _) = self.checked(request)?;
        answer(inspect::get(&self.0, &request.volume_id)).await
    }

    /// Called twice: what is left by then.
    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        let (request, _) = self.checked(request)?;
        Ok(Response::new(inspect::capacity(&self.0, &request)?))
    }
}

/// Begins the token of a page; the name of the last entry of the page before follows.
const AFTER: &str = "after:";

/// One page of what has these names, in their order, and the token of the next page.
fn page<T>(mut all: Vec<(String, T)>, token: &str, most: i32) -> Result<(Vec<T>, String), Error> {
    if !token.is_empty() {
        let after = token.strip_prefix(AFTER).ok_or(Error::BadToken)?;
        all.retain(|(name, _)| name.as_str() > after);
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    let most = usize::try_from(most).ok().filter(|&most| most > 0);
    let more = most.is_some_and(|most| all.len() > most);
    all.truncate(most.unwrap_or(all.len()));
    let last = all.last().filter(|_| more);
    let token = last.map_or_else(String::new, |(name, _)| format!("{AFTER}{name}"));
    Ok((all.into_iter().map(|(_, it)| it).collect(), token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_gaps_though_their_first_entry_may_be_gone() {
        let all = || ["b", "a", "c"].map(|name| (name.to_owned(), name)).to_vec();
        let (first, token) = page(all(), "", 2).unwrap();
        assert_eq!(first, ["a", "b"]);
        assert_eq!(page(all(), &token, 2).unwrap(), (vec!["c"], String::new()));
        let (rest, _) = page(all(), "after:aa", 0).unwrap();
        assert_eq!(rest, ["b", "c"]);
        assert!(page(all(), "b", 0).is_err());
    }
}
