//! The controller service: each RPC names what it locks and hands over to the state.

use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::controller_service_capability::{self, Rpc};
use stowage_csi::proto::csi::validate_volume_capabilities_response::Confirmed;
use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerServiceCapability, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    ListVolumesRequest, ListVolumesResponse, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, Volume, controller_get_volume_response,
    list_snapshots_response, list_volumes_response,
};
use tonic::{Request, Response, Status};

use super::fault::Faults;
use super::state::{State, page};
use super::{Expansion, Fault, MemoryDriver};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Controller for MemoryDriver {
    async fn controller_get_capabilities(
        &self,
        request: Request<ControllerGetCapabilitiesRequest>,
    ) -> Answer<ControllerGetCapabilitiesResponse> {
        self.call("ControllerGetCapabilities", request, |_| {
            let capabilities = &self.profile().controller;
            let mut kinds: Vec<_> = capabilities.iter().map(|kind| *kind as i32).collect();
            if self.has(Fault::UnknownControllerCapability) {
                kinds.push(99);
            }
            let capability = |kind| ControllerServiceCapability {
                r#type: Some(controller_service_capability::Type::Rpc(Rpc {
                    r#type: kind,
                })),
            };
            Ok(ControllerGetCapabilitiesResponse {
                capabilities: kinds.into_iter().map(capability).collect(),
            })
        })
        .await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Answer<GetCapacityResponse> {
        self.answer("GetCapacity", request, |_, request| {
            let room = self.rooms().at(request.accessible_topology.as_ref());
            let available_capacity = match self.faults() {
                faults if faults.has(Fault::NegativeCapacity) => -1,
                faults if faults.has(Fault::NoCapacity) => 0,
                _ => room.available,
            };
            Ok(GetCapacityResponse {
                available_capacity,
                maximum_volume_size: room.largest_volume,
                ..Default::default()
            })
        })
        .await
    }

    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Answer<CreateVolumeResponse> {
        if self.has(Fault::Dies) {
            self.die();
            return std::future::pending().await;
        }
        let is_first = self.state().volumes.is_empty();
        let key = request.get_ref().name.clone();
        let answer = self.answer_alone("CreateVolume", key, request, |state, mut request| {
            if !self.profile().topology {
                request.accessibility_requirements = None;
            }
            let volume = state.create_volume(request, &self.rooms(), &self.faults())?;
            Ok(CreateVolumeResponse {
                volume: Some(volume),
            })
        });
        let answer = answer.await;
        if self.has(Fault::FirstVolumeNotAnswered) && is_first {
            return std::future::pending().await;
        }
        answer
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Answer<DeleteVolumeResponse> {
        let key = request.get_ref().volume_id.clone();
        self.answer_alone("DeleteVolume", key, request, |state, request| {
            if self.has(Fault::TellsSecrets) {
                let secrets = request.secrets.values();
                return Err(Status::internal(format!("login {secrets:?}")));
            }
            state.delete_volume(&request.volume_id, &self.faults())?;
            Ok(DeleteVolumeResponse {})
        })
        .await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Answer<ControllerPublishVolumeResponse> {
        let key = request.get_ref().volume_id.clone();
        self.answer_alone("ControllerPublishVolume", key, request, |state, request| {
            let device = format!("/dev/memory/{}", request.volume_id);
            state.publish(request, self.profile(), &self.faults())?;
            Ok(ControllerPublishVolumeResponse {
                publish_context: [("device".to_owned(), device)].into(),
            })
        })
        .await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        let key = request.get_ref().volume_id.clone();
        self.answer_alone(
            "ControllerUnpublishVolume",
            key,
            request,
            |state, request| {
                if self.has(Fault::CannotBeUnpublished) {
                    return Err(Status::internal("it is stuck"));
                }
                state.unpublish(&request.volume_id, &request.node_id)?;
                Ok(ControllerUnpublishVolumeResponse {})
            },
        )
        .await
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
        .await
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Answer<ListVolumesResponse> {
        self.answer("ListVolumes", request, |state, request| {
            self.page_of_volumes(state, &request, &self.faults())
        })
        .await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Answer<ControllerGetVolumeResponse> {
        self.answer("ControllerGetVolume", request, |state, request| {
            let kept = state.find(&request.volume_id)?;
            let status = controller_get_volume_response::VolumeStatus {
                published_node_ids: nodes_of(state, &request.volume_id),
                volume_condition: None,
            };
            Ok(ControllerGetVolumeResponse {
                volume: Some(kept.show(&self.faults())),
                status: Some(status),
            })
        })
        .await
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Answer<CreateSnapshotResponse> {
        let key = request.get_ref().name.clone();
        self.answer_alone("CreateSnapshot", key, request, |state, request| {
            let snapshot = state.create_snapshot(request, &self.faults())?;
            Ok(CreateSnapshotResponse {
                snapshot: Some(snapshot),
            })
        })
        .await
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Answer<DeleteSnapshotResponse> {
        let key = request.get_ref().snapshot_id.clone();
        self.answer_alone("DeleteSnapshot", key, request, |state, request| {
            state.delete_snapshot(&request.snapshot_id, &self.faults())?;
            Ok(DeleteSnapshotResponse {})
        })
        .await
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Answer<ListSnapshotsResponse> {
        self.answer("ListSnapshots", request, |state, request| {
            let (page, next_token) = state.list_snapshots(&request, &self.faults())?;
            let entry = |snapshot| list_snapshots_response::Entry {
                snapshot: Some(snapshot),
            };
            Ok(ListSnapshotsResponse {
                entries: page.into_iter().map(entry).collect(),
                next_token,
            })
        })
        .await
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Answer<GetSnapshotResponse> {
        self.answer("GetSnapshot", request, |state, request| {
            let snapshot = state.get_snapshot(&request.snapshot_id, &self.faults())?;
            Ok(GetSnapshotResponse {
                snapshot: Some(snapshot),
            })
        })
        .await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Answer<ControllerExpandVolumeResponse> {
        let key = request.get_ref().volume_id.clone();
        self.answer_alone("ControllerExpandVolume", key, request, |state, request| {
            let id = &request.volume_id;
            if self.profile().expansion == Expansion::Offline && state.is_published(id) {
                return Err(Status::failed_precondition("it is published"));
            }
            let range = request.capacity_range.unwrap_or_default();
            let size = state.expand_volume(id, range, &self.rooms())?;
            let capacity_bytes = match self.faults() {
                faults if faults.has(Fault::ExpandedBeyondTheLimit) => size + 1,
                faults if faults.has(Fault::ExpandedTooLittle) => size / 2,
                _ => size,
            };
            Ok(ControllerExpandVolumeResponse {
                capacity_bytes,
                node_expansion_required: self.profile().expands_on_node,
            })
        })
        .await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Answer<ControllerModifyVolumeResponse> {
        let key = request.get_ref().volume_id.clone();
        self.answer_alone("ControllerModifyVolume", key, request, |state, request| {
            let parameters = request.mutable_parameters;
            state.modify_volume(&request.volume_id, parameters, &self.faults())?;
            Ok(ControllerModifyVolumeResponse {})
        })
        .await
    }
}

fn nodes_of(state: &State, id: &str) -> Vec<String> {
    let publications = state.published_at(id);
    publications.map(|one| one.node_id.clone()).collect()
}

impl MemoryDriver {
    fn page_of_volumes(
        &self,
        state: &State,
        request: &ListVolumesRequest,
        faults: &Faults,
    ) -> Result<ListVolumesResponse, Status> {
        let mut volumes: Vec<Volume> = state
            .volumes
            .values()
            .map(|kept| kept.show(faults))
            .collect();
        if faults.has(Fault::NewVolumesNotListed) {
            volumes.clear();
        }
        let only_id = |id: &String| Volume {
            volume_id: id.clone(),
            ..Default::default()
        };
        if faults.has(Fault::DeletedVolumesListed) {
            volumes.extend(state.deleted_volumes.iter().map(only_id));
        }
        if faults.has(Fault::ListedWithoutId) {
            volumes.push(Volume::default());
        }
        let ignored = faults.has(Fault::AnyToken) || faults.has(Fault::SameTokenForEver);
        let token = if ignored { "" } else { &request.starting_token };
        let (volumes, mut next_token) = page(volumes, token, request.max_entries)?;
        if faults.has(Fault::SameTokenForEver) {
            "again".clone_into(&mut next_token);
        }
        let tells_nodes = self.profile().can(Can::ListVolumesPublishedNodes);
        let entry = |volume: Volume| list_volumes_response::Entry {
            status: tells_nodes.then(|| list_volumes_response::VolumeStatus {
                published_node_ids: nodes_of(state, &volume.volume_id),
                volume_condition: None,
            }),
            volume: Some(volume),
        };
        Ok(ListVolumesResponse {
            entries: volumes.into_iter().map(entry).collect(),
            next_token,
        })
    }
}
