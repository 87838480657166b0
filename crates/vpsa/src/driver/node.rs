//! The Node service. Each RPC checks its arguments here and does its work in a module of its own.
//!
//! What is staged and published is known from the kernel's table of mounts, its list of disks and the links to them, and from
//! nowhere else.

mod attach;
mod attached;
mod detached;
pub mod disk;
mod filesystem;
pub mod iscsi;
mod kernel;
pub mod lasting;
mod let_go;
pub mod location;
pub mod multipath;
pub mod network;
mod publish;
pub mod register;
mod stage;
mod stats;
pub mod targets;
pub mod words;
mod write_out;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stowage_csi::check::{Check, Rules};
use stowage_csi::locks::VolumeLocks;
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
use stowage_host::exec::Exec;
use stowage_host::filesystem::FsKind;
use stowage_host::flush::Flushes;
use stowage_host::mount::Mounter;
use stowage_host::stat::Stats;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use self::disk::Places;
use self::iscsi::Initiator;
use self::lasting::Lasting;
use self::location::Location;
use self::multipath::Multipath;
use self::register::Registration;
use super::deadline;
use super::error::Error;
use crate::vsc::cipher::Cipher;

const CAPABILITIES: &[Rpc] = &[
    Rpc::StageUnstageVolume,
    Rpc::GetVolumeStats,
    Rpc::ExpandVolume,
    Rpc::VolumeCondition,
    Rpc::SingleNodeMultiWriter,
];

const RULES: Rules = Rules {
    id_bytes: 253,
    ..Rules::new(&[], CAPABILITIES)
};

/// The Node service.
#[derive(Clone)]
pub struct NodeService(pub Arc<NodeServices>);

/// What the calls share.
pub struct NodeServices {
    /// The driver's name.
    pub driver: String,
    /// This node's name.
    pub node: String,
    /// How many volumes it may have; 0 means no limit.
    pub most_volumes: u32,
    /// What is on disks for which nobody says it.
    pub default_filesystem: FsKind,
    /// For secrets of logins.
    pub cipher: Cipher,
    /// Runs the host's tools.
    pub exec: Arc<dyn Exec>,
    /// Mounts.
    pub mounter: Arc<dyn Mounter>,
    /// Mounts shares, by the host's `mount`: their helpers are the host's.
    pub shares: Arc<dyn Mounter>,
    /// Looks at mounts that may hang.
    pub stats: Arc<Stats>,
    /// Writes disks out that may hang.
    pub flushes: Flushes,
    /// Where it is told which disks there are.
    pub places: Places,
    /// Sessions with arrays.
    pub initiator: Initiator,
    /// Disks that several paths lead to.
    pub multipath: Multipath,
    /// Where this node is.
    pub location: Location,
    /// What the cluster is told about this node.
    pub registration: Registration,
    /// One call per volume at a time.
    pub locks: VolumeLocks,
    /// Work on disks that goes on without its caller.
    pub lasting: Lasting,
    /// How long a call may take, even if its caller would wait longer.
    pub longest: Duration,
}

impl NodeService {
    /// Does the work of a call that is complete, within its time. Tools that hang are given up with it, but not what is
    /// [`lasting`].
    async fn carry_out<R, T, F>(
        &self,
        request: Request<R>,
        work: impl FnOnce(Arc<NodeServices>, R) -> F,
    ) -> Result<Response<T>, Status>
    where
        R: Check,
        F: Future<Output = Result<T, Error>>,
    {
        let deadline = deadline(&request, self.0.longest);
        let request = RULES.checked(request)?;
        let work = work(Arc::clone(&self.0), request);
        match timeout(deadline.remaining(), Box::pin(work)).await {
            Ok(done) => Ok(Response::new(done?)),
            Err(_) => Err(Status::deadline_exceeded(
                "the host did not do it in time. The filesystem of a large disk may still be made, checked or mounted: that goes on. \
                 Otherwise look for commands that hang (`iscsiadm`, `multipath`, `mount`) on the node",
            )),
        }
    }
}

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
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.0.node.clone(),
            max_volumes_per_node: self.0.most_volumes.into(),
            accessible_topology: self.0.location.topology().await?,
        }))
    }

    /// Called twice: it is staged already; `ALREADY_EXISTS` if it is so in another way.
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        self.carry_out(request, stage::stage).await
    }

    /// Called twice: it is not staged any more.
    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        self.carry_out(request, stage::unstage).await
    }

    /// Called twice: it is published already; `ALREADY_EXISTS` if it is so in another way.
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        self.carry_out(request, publish::publish).await
    }

    /// Called twice: it is not published any more, and the target is gone.
    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        self.carry_out(request, publish::unpublish).await
    }

    /// Called twice: the figures of that moment.
    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        self.carry_out(request, stats::stats).await
    }

    /// Called twice: it has grown already.
    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        self.carry_out(request, stage::expand).await
    }
}

fn not_mounted(path: &Path) -> Error {
    Error::NotMounted(path.to_owned())
}
