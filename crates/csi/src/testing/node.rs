use std::{fs, path::Path};

use stowage_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, Topology, VolumeCapability, VolumeUsage,
    node_server::Node,
    node_service_capability::{self, Rpc},
    volume_capability::{AccessType, access_mode::Mode},
    volume_usage::Unit,
};
use tonic::{Request, Response, Status};

use super::{
    Driver, Fault, LIMIT, NODE, NODE_SIDE, Shape, remove_target,
    state::{Access, State},
};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Node for Driver {
    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        let mut kinds: Vec<_> = NODE_SIDE.iter().map(|kind| *kind as i32).collect();
        if self.shape == Shape::NodeOnly {
            kinds.clear();
        }
        if self.has(Fault::UnknownNodeCapability) {
            kinds.push(99);
        }
        let capability = |kind| NodeServiceCapability {
            r#type: Some(node_service_capability::Type::Rpc(Rpc { r#type: kind })),
        };
        Ok(Response::new(NodeGetCapabilitiesResponse {
            capabilities: kinds.into_iter().map(capability).collect(),
        }))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Answer<NodeGetInfoResponse> {
        let node_id = match self.fault {
            Some(Fault::NodeIdMissing) => String::new(),
            Some(Fault::NodeIdTooLong) => "n".repeat(257),
            _ => NODE.to_owned(),
        };
        let max_volumes_per_node = match self.fault {
            Some(Fault::NegativeLimit) => -1,
            _ => LIMIT,
        };
        let here = [("memory.csi.test/node".to_owned(), NODE.to_owned())];
        let here = Topology {
            segments: here.into(),
        };
        Ok(Response::new(NodeGetInfoResponse {
            node_id,
            max_volumes_per_node,
            accessible_topology: (!self.has(Fault::TopologyMissing)).then_some(here),
        }))
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
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        self.answer("NodePublishVolume", request, |state, request| {
            self.publish(state, request)?;
            Ok(NodePublishVolumeResponse {})
        })
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
    }
}

fn at(state: &State, volume_id: &str, path: &str) -> Result<(), Status> {
    match state.targets.get(path) {
        Some((published, _)) if published == volume_id => Ok(()),
        _ => Err(Status::not_found("the volume is not there")),
    }
}

fn mode(capability: Option<&VolumeCapability>) -> i32 {
    let mode = capability.and_then(|capability| capability.access_mode.as_ref());
    mode.map_or(0, |mode| mode.mode)
}

impl Driver {
    fn publish(&self, state: &mut State, request: NodePublishVolumeRequest) -> Result<(), Status> {
        let id = request.volume_id;
        if self.shape != Shape::NodeOnly {
            state.find(&id)?;
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
            .any(|(path, (published, _))| *published == id && *path != request.target_path);
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
        state.targets.insert(request.target_path, (id, mode));
        Ok(())
    }
}
