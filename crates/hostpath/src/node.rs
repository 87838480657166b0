//! The Node service: what can be done with a volume on the node where it is. Each RPC checks its arguments here and
//! does its work in a module of its own.
//!
//! What is staged and published is known from the kernel's table of mounts and of loop devices and from nowhere else;
//! only nodes that share a machine leave each other notes (`sharing`), as none sees the others' mounts.

use std::sync::Arc;

use stowage_csi::check::Rules;
use stowage_csi::proto::csi::node_server::Node;
use stowage_csi::proto::csi::node_service_capability::rpc::Type as Rpc;
use stowage_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodePublishVolumeResponse, NodeStageVolumeRequest, NodeStageVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse,
};
use tonic::{Request, Response, Status};

use crate::driver::{Driver, answer, carry_out};
use crate::topology;

mod expand;
mod inline;
mod publish;
mod sharing;
mod stage;
mod stats;
mod target;
mod unpublish;

/// `VOLUME_MOUNT_GROUP` is not among them: the filesystems have no mount option for it, and the kubelet sets the group
/// by itself where the driver does not.
const CAPABILITIES: &[Rpc] = &[
    Rpc::StageUnstageVolume,
    Rpc::GetVolumeStats,
    Rpc::ExpandVolume,
    Rpc::VolumeCondition,
    Rpc::SingleNodeMultiWriter,
];

const RULES: Rules = Rules::new(&[], CAPABILITIES);
/// Inline volumes are published without having been staged.
const INLINE_RULES: Rules = Rules::new(&[], &[]);

pub(crate) struct NodeService(pub(crate) Arc<Driver>);

#[tonic::async_trait]
impl Node for NodeService {
    /// Called twice: the same answer.
    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(CAPABILITIES.into()))
    }

    /// Called twice: the same answer.
    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let config = &self.0.config;
        Ok(Response::new(NodeGetInfoResponse {
            node_id: config.node.to_string(),
            max_volumes_per_node: config.serving.max_volumes.into(),
            accessible_topology: topology::of_this_node(config),
        }))
    }

    /// Called twice: it is staged already; `ALREADY_EXISTS` if it is so in another way.
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        carry_out(&self.0, stage::stage(self.0.clone(), request)).await
    }

    /// Called twice: it is not staged any more.
    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        carry_out(&self.0, stage::unstage(self.0.clone(), request)).await
    }

    /// Called twice: it is published already; `ALREADY_EXISTS` if it is so in another way.
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        if inline::is_inline(request.get_ref()) {
            let request = INLINE_RULES.checked(request)?;
            return carry_out(&self.0, inline::publish(self.0.clone(), request)).await;
        }
        let request = RULES.checked(request)?;
        carry_out(&self.0, publish::publish(self.0.clone(), request)).await
    }

    /// Called twice: it is not published any more, and the target is gone.
    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        carry_out(&self.0, unpublish::unpublish(self.0.clone(), request)).await
    }

    /// Called twice: the figures of that moment.
    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = RULES.checked(request)?;
        answer(stats::stats(&self.0, request).await)
    }

    /// Called twice: it has grown already.
    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        carry_out(&self.0, expand::expand(self.0.clone(), request)).await
    }
}
