//! The Node service: volumes on this node. Each RPC checks its arguments here and does its work in a module of its own.
//!
//! What is published is known from the kernel's table of mounts and from nowhere else.

use std::sync::Arc;

use stowage_csi::check::Rules;
use stowage_csi::proto::csi::node_server::Node;
use stowage_csi::proto::csi::node_service_capability::rpc::Type as Rpc;
use stowage_csi::proto::csi::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};
use tonic::{Request, Response, Status};

use super::concurrency::{Counted, cluster_of};
use super::{Driver, answer};
use crate::metrics::Operation;
use crate::topology::Transport;
use crate::{handle, topology};

pub(crate) mod annotations;
pub(crate) mod labels;
pub(crate) mod names;
mod publish;
mod stats;
mod unpublish;

/// Nothing is staged: a bind from the filesystem's own mount is all there is to a volume.
const CAPABILITIES: &[Rpc] = &[
    Rpc::GetVolumeStats,
    Rpc::VolumeCondition,
    Rpc::SingleNodeMultiWriter,
];

const RULES: Rules = Rules {
    id_bytes: handle::LONGEST,
    ..Rules::new(&[], CAPABILITIES)
};

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
        let (driver, config) = (&self.0, &self.0.config);
        // What cannot be mounted now is mounted by the client, when it is back.
        let transport = driver.mounts.transport(labels::connection(driver).await);
        let transport = transport.unwrap_or(Transport::Wekafs);
        let topology = topology::of_node(
            &config.serving.driver_name,
            &config.node,
            config.labels.then_some(transport),
            &driver.zones,
        );
        Ok(Response::new(NodeGetInfoResponse {
            node_id: config.node.clone(),
            max_volumes_per_node: config.serving.max_volumes.into(),
            accessible_topology: Some(topology),
        }))
    }

    /// Called twice: it is published already; `ALREADY_EXISTS` if it is so in another way.
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = RULES.checked(request)?;
        let counted = Counted::by_filesystem(
            Operation::PublishVolume,
            cluster_of(&request.secrets),
            &request.volume_id,
        );
        // Boxed: it is large, and most calls are small.
        let work = Box::pin(publish::publish(driver, request, deadline));
        let work = driver.concurrency.run(counted, deadline, |_| None, work);
        answer(deadline, work).await
    }

    /// Called twice: it is not published any more, and the target is gone.
    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = RULES.checked(request)?;
        let operation = Operation::UnpublishVolume;
        let counted = Counted::by_filesystem(operation, "", &request.volume_id);
        let work = unpublish::unpublish(driver, request);
        let work = driver.concurrency.run(counted, deadline, |_| None, work);
        answer(deadline, work).await
    }

    /// Called twice: the figures of that moment.
    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let (driver, deadline) = (&self.0, self.0.deadline(&request));
        let request = RULES.checked(request)?;
        let operation = Operation::GetVolumeStats;
        let counted = Counted::by_filesystem(operation, "", &request.volume_id);
        let work = stats::stats(driver, request);
        let work = driver.concurrency.run(counted, deadline, |_| None, work);
        answer(deadline, work).await
    }
}
