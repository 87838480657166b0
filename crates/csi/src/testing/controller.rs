use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerServiceCapability, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    ListVolumesRequest, ListVolumesResponse, Snapshot, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, Volume,
    controller_server::Controller,
    controller_service_capability::{self, Rpc},
    list_snapshots_response, list_volumes_response,
    validate_volume_capabilities_response::Confirmed,
};
use tonic::{Request, Response, Status};

use super::{CONTROLLER, Driver, Fault, Shape, state::check_mutable};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Controller for Driver {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Answer<ControllerGetCapabilitiesResponse> {
        if self.has(Fault::Fails("ControllerGetCapabilities")) {
            return Err(Status::internal("broken on purpose"));
        }
        let mut kinds: Vec<_> = CONTROLLER.iter().map(|kind| *kind as i32).collect();
        if self.has(Fault::UnknownControllerCapability) {
            kinds.push(99);
        }
        let capability = |kind| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(Rpc {
                r#type: kind,
            })),
        };
        Ok(Response::new(ControllerGetCapabilitiesResponse {
            capabilities: kinds.into_iter().map(capability).collect(),
        }))
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Answer<GetCapacityResponse> {
        let capacity = match self.fault {
            Some(Fault::NegativeCapacity) => -1,
            _ => 1 << 40,
        };
        self.answer("GetCapacity", request, |_, _| {
            Ok(GetCapacityResponse {
                available_capacity: capacity,
                ..Default::default()
            })
        })
    }

    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Answer<CreateVolumeResponse> {
        if self.has(Fault::Dies) {
            self.shutdown.cancel();
            return std::future::pending().await;
        }
        let fault = self.fault;
        let is_first = self.state().volumes.is_empty();
        let answer = self.answer("CreateVolume", request, |state, request| {
            state.secrets.clone_from(&request.secrets);
            let volume = state.create_volume(request, fault)?;
            Ok(CreateVolumeResponse {
                volume: Some(volume),
            })
        });
        if self.has(Fault::FirstVolumeNotAnswered) && is_first {
            return std::future::pending().await;
        }
        answer
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Answer<DeleteVolumeResponse> {
        self.answer("DeleteVolume", request, |state, request| {
            let id = request.volume_id;
            match self.fault {
                Some(Fault::TellsSecrets) => {
                    return Err(Status::internal(format!(
                        "login {:?}",
                        request.secrets.values()
                    )));
                }
                Some(Fault::MissingVolumeCannotBeDeleted) => drop(state.find(&id)?),
                Some(Fault::VolumeCannotBeDeleted) if state.volumes.contains_key(&id) => {
                    return Err(Status::internal("it does not go"));
                }
                Some(Fault::VolumeStaysWhenDeleted) => return Ok(DeleteVolumeResponse {}),
                _ => {}
            }
            if state.attached.contains_key(&id) {
                return Err(Status::failed_precondition("it is published"));
            }
            state.volumes.remove(&id);
            state.deleted_volumes.push(id);
            Ok(DeleteVolumeResponse {})
        })
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Answer<ControllerPublishVolumeResponse> {
        self.answer("ControllerPublishVolume", request, |state, request| {
            state.attach(request, self.fault)?;
            Ok(ControllerPublishVolumeResponse::default())
        })
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        self.answer("ControllerUnpublishVolume", request, |state, request| {
            if self.has(Fault::CannotBeUnpublished) {
                return Err(Status::internal("it is stuck"));
            }
            let id = request.volume_id;
            if state
                .targets
                .values()
                .any(|(published, _)| *published == id)
            {
                return Err(Status::failed_precondition("a pod uses it"));
            }
            state.attached.remove(&id);
            Ok(ControllerUnpublishVolumeResponse {})
        })
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<ValidateVolumeCapabilitiesResponse> {
        self.answer("ValidateVolumeCapabilities", request, |state, request| {
            state.find(&request.volume_id)?;
            let mut volume_capabilities = request.volume_capabilities;
            if self.has(Fault::NothingConfirmed) {
                volume_capabilities.clear();
            }
            Ok(ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_capabilities,
                    ..Default::default()
                }),
                ..Default::default()
            })
        })
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Answer<ListVolumesResponse> {
        self.answer("ListVolumes", request, |state, request| {
            if !request.starting_token.is_empty()
                && !matches!(self.fault, Some(Fault::AnyToken | Fault::SameTokenForEver))
            {
                return Err(Status::aborted("no token of ours"));
            }
            let mut volumes: Vec<_> = state
                .volumes
                .iter()
                .map(|(id, kept)| kept.show(id, self.fault))
                .collect();
            match self.fault {
                Some(Fault::NewVolumesNotListed) => volumes.clear(),
                Some(Fault::DeletedVolumesListed) => {
                    let deleted = state.deleted_volumes.iter().cloned();
                    volumes.extend(deleted.map(|volume_id| Volume {
                        volume_id,
                        ..Default::default()
                    }));
                }
                Some(Fault::ListedWithoutId) => volumes.push(Volume::default()),
                _ => {}
            }
            let entry = |volume| list_volumes_response::Entry {
                volume: Some(volume),
                status: None,
            };
            Ok(ListVolumesResponse {
                entries: volumes.into_iter().map(entry).collect(),
                next_token: match self.fault {
                    Some(Fault::SameTokenForEver) => "again".to_owned(),
                    _ => String::new(),
                },
            })
        })
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Answer<CreateSnapshotResponse> {
        self.answer("CreateSnapshot", request, |state, request| {
            let snapshot = state.create_snapshot(request, self.fault)?;
            Ok(CreateSnapshotResponse {
                snapshot: Some(snapshot),
            })
        })
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Answer<DeleteSnapshotResponse> {
        self.answer("DeleteSnapshot", request, |state, request| {
            let gone = state.snapshots.remove(&request.snapshot_id);
            if gone.is_none() && self.has(Fault::MissingSnapshotCannotBeDeleted) {
                return Err(Status::not_found("there is no such snapshot"));
            }
            let gone = gone.into_iter().map(|(_, snapshot)| snapshot);
            state.deleted_snapshots.extend(gone);
            Ok(DeleteSnapshotResponse {})
        })
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Answer<ListSnapshotsResponse> {
        self.answer("ListSnapshots", request, |state, request| {
            let (page, next_token) = state.list_snapshots(&request, self.fault)?;
            let entry = |snapshot| list_snapshots_response::Entry {
                snapshot: Some(snapshot),
            };
            Ok(ListSnapshotsResponse {
                entries: page.into_iter().map(entry).collect(),
                next_token,
            })
        })
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Answer<GetSnapshotResponse> {
        self.answer("GetSnapshot", request, |state, request| {
            let found = state.snapshots.get(&request.snapshot_id);
            let found = found.ok_or_else(|| Status::not_found("there is no such snapshot"))?;
            let snapshot = match self.fault {
                Some(Fault::OtherSnapshotFound) => Snapshot::default(),
                _ => found.1.clone(),
            };
            Ok(GetSnapshotResponse {
                snapshot: Some(snapshot),
            })
        })
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Answer<ControllerExpandVolumeResponse> {
        self.answer("ControllerExpandVolume", request, |state, request| {
            if self.shape == Shape::Offline && state.attached.contains_key(&request.volume_id) {
                return Err(Status::failed_precondition("it is published"));
            }
            let kept = state.volumes.get_mut(&request.volume_id);
            let kept = kept.ok_or_else(|| Status::not_found("there is no such volume"))?;
            let asked = request.capacity_range.unwrap_or_default().required_bytes;
            kept.size = kept.size.max(asked);
            let beyond = i64::from(self.has(Fault::ExpandedBeyondTheLimit));
            Ok(ControllerExpandVolumeResponse {
                capacity_bytes: kept.size + beyond,
                node_expansion_required: true,
            })
        })
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Answer<ControllerModifyVolumeResponse> {
        self.answer("ControllerModifyVolume", request, |state, request| {
            state.find(&request.volume_id)?;
            check_mutable(&request.mutable_parameters, self.fault)?;
            Ok(ControllerModifyVolumeResponse {})
        })
    }
}
