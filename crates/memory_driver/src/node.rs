//! The node service. A target path is a directory or a file, not a mount.

use std::fs;
use std::path::Path;

use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::node_server::Node;
use stowage_csi::proto::csi::node_service_capability::rpc::Type as NodeCan;
use stowage_csi::proto::csi::node_service_capability::{self, Rpc};
use stowage_csi::proto::csi::volume_capability::AccessType;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_usage::Unit;
use stowage_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, Topology, VolumeUsage,
};
use tonic::{Request, Response, Status};

use super::state::{State, mode};
use super::{Access, Fault, MemoryDriver};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Node for MemoryDriver {
    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        self.call("NodeGetCapabilities", request, |_| {
            let capabilities = &self.profile().node;
            let mut kinds: Vec<_> = capabilities.iter().map(|kind| *kind as i32).collect();
            if self.has(Fault::UnknownNodeCapability) {
                kinds.push(99);
            }
            let capability = |kind| NodeServiceCapability {
                r#type: Some(node_service_capability::Type::Rpc(Rpc { r#type: kind })),
            };
            Ok(NodeGetCapabilitiesResponse {
                capabilities: kinds.into_iter().map(capability).collect(),
            })
        })
        .await
    }

    async fn node_get_info(
        &self,
        request: Request<NodeGetInfoRequest>,
    ) -> Answer<NodeGetInfoResponse> {
        self.call("NodeGetInfo", request, |_| {
            let (profile, faults) = (self.profile(), self.faults());
            let node_id = match profile.node_id() {
                _ if faults.has(Fault::NodeIdMissing) => String::new(),
                _ if faults.has(Fault::NodeIdTooLong) => "n".repeat(257),
                node_id => node_id.to_owned(),
            };
            let max_volumes_per_node = if faults.has(Fault::NegativeLimit) {
                -1
            } else {
                profile.volumes_per_node
            };
            let has_place = profile.topology && !faults.has(Fault::TopologyMissing);
            let place = (
                format!("{}/node", profile.name),
                profile.node_id().to_owned(),
            );
            Ok(NodeGetInfoResponse {
                node_id,
                max_volumes_per_node,
                accessible_topology: has_place.then(|| Topology {
                    segments: [place].into(),
                }),
            })
        })
        .await
    }

    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Answer<NodeStageVolumeResponse> {
        self.answer("NodeStageVolume", request, |state, request| {
            state.find(&request.volume_id)?;
            let is_new = state
                .staged
                .insert((request.volume_id, request.staging_target_path));
            if !is_new && self.has(Fault::StagedOnlyOnce) {
                return Err(Status::already_exists("it is staged"));
            }
            Ok(NodeStageVolumeResponse {})
        })
        .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Answer<NodeUnstageVolumeResponse> {
        self.answer("NodeUnstageVolume", request, |state, request| {
            let key = (request.volume_id, request.staging_target_path);
            state.staged.remove(&key);
            Ok(NodeUnstageVolumeResponse {})
        })
        .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        self.answer("NodePublishVolume", request, |state, request| {
            self.publish_at_target(state, request)?;
            Ok(NodePublishVolumeResponse {})
        })
        .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        self.answer("NodeUnpublishVolume", request, |state, request| {
            if !self.has(Fault::TargetStays) {
                remove_target(Path::new(&request.target_path));
            }
            state.targets.remove(&request.target_path);
            Ok(NodeUnpublishVolumeResponse {})
        })
        .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Answer<NodeGetVolumeStatsResponse> {
        self.answer("NodeGetVolumeStats", request, |state, request| {
            let size = state.find(&request.volume_id)?.size;
            if !self.has(Fault::AnyPathHasStats) {
                at(state, &request.volume_id, &request.volume_path)?;
            }
            let mut usage = vec![VolumeUsage {
                total: size,
                unit: Unit::Bytes.into(),
                ..Default::default()
            }];
            if self.has(Fault::StatsWithoutUsage) {
                usage.clear();
            }
            Ok(NodeGetVolumeStatsResponse {
                usage,
                ..Default::default()
            })
        })
        .await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Answer<NodeExpandVolumeResponse> {
        self.answer("NodeExpandVolume", request, |state, request| {
            let size = state.find(&request.volume_id)?.size;
            at(state, &request.volume_id, &request.volume_path)?;
            let asked = request.capacity_range.unwrap_or_default().required_bytes;
            if asked > size {
                return Err(Status::out_of_range("the controller comes first"));
            }
            Ok(NodeExpandVolumeResponse {
                capacity_bytes: size,
            })
        })
        .await
    }
}

fn at(state: &State, volume_id: &str, path: &str) -> Result<(), Status> {
    match state.targets.get(path) {
        Some(published) if published == volume_id => Ok(()),
        _ => Err(Status::not_found("the volume is not there")),
    }
}

impl MemoryDriver {
    fn publish_at_target(
        &self,
        state: &mut State,
        request: NodePublishVolumeRequest,
    ) -> Result<(), Status> {
        let id = request.volume_id;
        if self.profile().can(Can::CreateDeleteVolume) {
            state.find(&id)?;
        }
        if self.profile().node_can(NodeCan::StageUnstageVolume) {
            let staged = (id.clone(), request.staging_target_path);
            if !state.staged.contains(&staged) {
                return Err(Status::failed_precondition("it is not staged"));
            }
        }
        let capability = request.volume_capability;
        let mode = mode(capability.as_ref());
        let single = mode == i32::from(Mode::SingleNodeSingleWriter);
        let elsewhere = state
            .targets
            .iter()
            .any(|(path, published)| *published == id && *path != request.target_path);
        if single && elsewhere && !self.has(Fault::SecondTarget) {
            return Err(Status::failed_precondition("another target has it"));
        }
        let path = Path::new(&request.target_path);
        if !path.exists() && !self.has(Fault::TargetNotMade) {
            let access_type = capability.and_then(|capability| capability.access_type);
            let created = if let Some(AccessType::Block(_)) = access_type {
                state.seen.insert(Access::Block);
                fs::write(path, "")
            } else {
                state.seen.insert(Access::Mount);
                fs::create_dir(path)
            };
            created.map_err(|error| Status::internal(error.to_string()))?;
        }
        state.targets.insert(request.target_path, id);
        Ok(())
    }
}

/// Removes a target path, whatever it is.
fn remove_target(path: &Path) {
    _ = fs::remove_dir(path);
    _ = fs::remove_file(path);
}
