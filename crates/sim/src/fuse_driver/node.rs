//! Mounts volumes on this node.

use std::path::Path;

use stowage_csi::proto::csi::node_server::Node;
use stowage_csi::proto::csi::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use tonic::{Request, Response, Status};

use super::volumes::{refusal, unmount};
use super::{Driver, RULES};

#[tonic::async_trait]
impl Node for Driver {
    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(RULES.node.into()))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.node_id.clone(),
            ..NodeGetInfoResponse::default()
        }))
    }

    /// Called twice: it is mounted once.
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        if let Some(refusal) = request.volume_capability.as_ref().and_then(refusal) {
            return Err(Status::invalid_argument(refusal));
        }
        let target = Path::new(&request.target_path);
        self.volumes
            .mount(&request.volume_id, target, request.readonly)?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    /// Called twice: what is unmounted stays so. Also what an earlier process has served.
    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        unmount(Path::new(&request.target_path))?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }
}
