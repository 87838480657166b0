//! A driver under test and its clients, with verbs for what a cluster does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::group_controller_client::GroupControllerClient;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume,
};
use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use stowage_csi::proto::csi::*;
use stowage_csi::server::Shutdown;
use stowage_hostpath::{Args, StartError, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

#[derive(Parser)]
pub struct Command {
    #[command(flatten)]
    pub args: Args,
}

pub struct Rig {
    pub directory: PathBuf,
    pub state: PathBuf,
    pub identity: IdentityClient<Connection>,
    pub controller: ControllerClient<Connection>,
    pub group: GroupControllerClient<Connection>,
    pub node: NodeClient<Connection>,
    stop: CancellationToken,
    served: JoinHandle<Result<(), StartError>>,
}

/// The flags of a driver whose files are all below `directory`.
pub fn flags(directory: &Path, more: &[&str]) -> Vec<String> {
    let mut flags = vec![
        "hostpath".to_owned(),
        format!("--endpoint={}", directory.join("csi.sock").display()),
    ];
    if !more.iter().any(|flag| flag.starts_with("--nodeid")) {
        flags.push("--nodeid=node-1".to_owned());
    }
    if !more.iter().any(|flag| flag.starts_with("--statedir")) {
        flags.push(format!("--statedir={}", directory.join("state").display()));
    }
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    flags
}

pub fn clients(directory: &Path) -> Connection {
    let endpoint = Endpoint::try_from(directory.join("csi.sock").as_path()).unwrap();
    Connection::new(
        &endpoint,
        ClientOptions {
            timeout: Duration::from_secs(60),
            patience: Duration::from_secs(10),
            metrics: ClientMetrics::default(),
        },
    )
}

impl Rig {
    pub fn start(directory: &Path, more: &[&str]) -> Self {
        let args = Command::parse_from(flags(directory, more)).args;
        let state = args.state_directory.clone().unwrap();
        Self::start_with(directory, state, args)
    }

    /// A driver with other flags, whose volumes are expected there.
    pub fn start_with(directory: &Path, state: PathBuf, args: Args) -> Self {
        let stop = CancellationToken::new();
        let shutdown = Shutdown {
            token: stop.clone(),
            grace: Duration::from_secs(10),
        };
        let served = tokio::spawn(run(args, ServerMetrics::default(), shutdown));
        Self::connected(directory, state, stop, served)
    }

    /// Clients of a driver that runs elsewhere.
    pub fn of_process(directory: &Path, state: PathBuf) -> Self {
        let served = tokio::spawn(async { Ok(()) });
        Self::connected(directory, state, CancellationToken::new(), served)
    }

    fn connected(
        directory: &Path,
        state: PathBuf,
        stop: CancellationToken,
        served: JoinHandle<Result<(), StartError>>,
    ) -> Self {
        let connection = clients(directory);
        Self {
            directory: directory.to_owned(),
            state,
            identity: IdentityClient::new(connection.clone()),
            controller: ControllerClient::new(connection.clone()),
            group: GroupControllerClient::new(connection.clone()),
            node: NodeClient::new(connection),
            stop,
            served,
        }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
    }

    pub async fn create(
        &self,
        name: &str,
        bytes: u64,
        capability: &VolumeCapability,
    ) -> Result<Volume, Status> {
        self.create_from(name, bytes, capability, None).await
    }

    pub async fn create_from(
        &self,
        name: &str,
        bytes: u64,
        capability: &VolumeCapability,
        source: impl Into<Option<Type>>,
    ) -> Result<Volume, Status> {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: exactly(bytes),
            volume_capabilities: vec![capability.clone()],
            volume_content_source: source.into().map(|source| VolumeContentSource {
                r#type: Some(source),
            }),
            ..CreateVolumeRequest::default()
        };
        let answer = self.controller.clone().create_volume(request).await?;
        Ok(answer.into_inner().volume.unwrap())
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..DeleteVolumeRequest::default()
        };
        self.controller.clone().delete_volume(request).await?;
        Ok(())
    }

    pub async fn snapshot(&self, name: &str, volume: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: volume.to_owned(),
            ..CreateSnapshotRequest::default()
        };
        let answer = self.controller.clone().create_snapshot(request).await?;
        Ok(answer.into_inner().snapshot.unwrap())
    }

    pub async fn delete_snapshot(&self, id: &str) -> Result<(), Status> {
        let request = DeleteSnapshotRequest {
            snapshot_id: id.to_owned(),
            ..DeleteSnapshotRequest::default()
        };
        self.controller.clone().delete_snapshot(request).await?;
        Ok(())
    }

    pub async fn take_group(
        &self,
        name: &str,
        volumes: &[&str],
    ) -> Result<VolumeGroupSnapshot, Status> {
        let request = CreateVolumeGroupSnapshotRequest {
            name: name.to_owned(),
            source_volume_ids: volumes.iter().map(|id| (*id).to_owned()).collect(),
            ..Default::default()
        };
        let mut group = self.group.clone();
        let answer = group.create_volume_group_snapshot(request).await?;
        Ok(answer.into_inner().group_snapshot.unwrap())
    }

    pub async fn get_group(
        &self,
        id: &str,
        members: Vec<String>,
    ) -> Result<VolumeGroupSnapshot, Status> {
        let request = GetVolumeGroupSnapshotRequest {
            group_snapshot_id: id.to_owned(),
            snapshot_ids: members,
            ..Default::default()
        };
        let answer = self
            .group
            .clone()
            .get_volume_group_snapshot(request)
            .await?;
        Ok(answer.into_inner().group_snapshot.unwrap())
    }

    pub async fn delete_group(&self, id: &str, members: Vec<String>) -> Result<(), Status> {
        let request = DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: id.to_owned(),
            snapshot_ids: members,
            ..Default::default()
        };
        self.group
            .clone()
            .delete_volume_group_snapshot(request)
            .await?;
        Ok(())
    }

    pub async fn expand(&self, id: &str, bytes: u64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: exactly(bytes),
            ..ControllerExpandVolumeRequest::default()
        };
        let answer = self
            .controller
            .clone()
            .controller_expand_volume(request)
            .await?;
        Ok(answer.into_inner().capacity_bytes)
    }

    pub async fn node_expand(&self, id: &str, path: &Path, bytes: u64) -> Result<(), Status> {
        let request = NodeExpandVolumeRequest {
            volume_id: id.to_owned(),
            volume_path: text(path),
            capacity_range: exactly(bytes),
            ..NodeExpandVolumeRequest::default()
        };
        self.node.clone().node_expand_volume(request).await?;
        Ok(())
    }

    /// Where a volume is staged: one place per volume, as the kubelet has it.
    pub fn staging(&self, id: &str) -> PathBuf {
        self.directory.join("staging").join(&id[..20.min(id.len())])
    }

    /// Where a pod has its volume.
    pub fn target(&self, pod: &str) -> PathBuf {
        self.directory.join("pods").join(pod)
    }

    pub async fn stage(&self, id: &str, capability: &VolumeCapability) -> Result<PathBuf, Status> {
        let staging = self.staging(id);
        fs::create_dir_all(&staging).unwrap();
        let request = NodeStageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: text(&staging),
            volume_capability: Some(capability.clone()),
            ..NodeStageVolumeRequest::default()
        };
        self.node.clone().node_stage_volume(request).await?;
        Ok(staging)
    }

    pub async fn unstage(&self, id: &str) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: text(&self.staging(id)),
        };
        self.node.clone().node_unstage_volume(request).await?;
        Ok(())
    }

    pub fn publication(
        &self,
        id: &str,
        pod: &str,
        capability: &VolumeCapability,
    ) -> NodePublishVolumeRequest {
        let target = self.target(pod);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: text(&self.staging(id)),
            target_path: text(&target),
            volume_capability: Some(capability.clone()),
            ..NodePublishVolumeRequest::default()
        }
    }

    pub async fn publish(
        &self,
        id: &str,
        pod: &str,
        capability: &VolumeCapability,
    ) -> Result<PathBuf, Status> {
        let request = self.publication(id, pod, capability);
        self.node.clone().node_publish_volume(request).await?;
        Ok(self.target(pod))
    }

    pub async fn unpublish(&self, id: &str, pod: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: text(&self.target(pod)),
        };
        self.node.clone().node_unpublish_volume(request).await?;
        Ok(())
    }

    pub async fn stats(&self, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: path.to_owned(),
            ..NodeGetVolumeStatsRequest::default()
        };
        let answer = self.node.clone().node_get_volume_stats(request).await?;
        Ok(answer.into_inner())
    }

    pub async fn volumes(&self) -> Vec<list_volumes_response::Entry> {
        let request = ListVolumesRequest::default();
        let answer = self.controller.clone().list_volumes(request).await.unwrap();
        answer.into_inner().entries
    }

    pub async fn snapshots(&self, request: ListSnapshotsRequest) -> Vec<Snapshot> {
        let answer = self
            .controller
            .clone()
            .list_snapshots(request)
            .await
            .unwrap();
        let entries = answer.into_inner().entries.into_iter();
        entries.map(|entry| entry.snapshot.unwrap()).collect()
    }

    /// A volume made, staged and published for one pod.
    pub async fn in_use(
        &self,
        name: &str,
        bytes: u64,
        capability: &VolumeCapability,
    ) -> (String, PathBuf) {
        let id = self
            .create(name, bytes, capability)
            .await
            .unwrap()
            .volume_id;
        self.stage(&id, capability).await.unwrap();
        let target = self.publish(&id, name, capability).await.unwrap();
        (id, target)
    }

    /// The end of a volume that was made by [`Rig::in_use`].
    pub async fn put_away(&self, id: &str, pod: &str) {
        self.unpublish(id, pod).await.unwrap();
        self.unstage(id).await.unwrap();
        self.delete(id).await.unwrap();
    }

    /// All files in the state directory that belong to volumes and snapshots.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for area in [
            "volumes",
            "snapshots",
            "groups",
            "inline",
            "frozen",
            "scratch",
            "staged",
        ] {
            let entries = fs::read_dir(self.state.join(area)).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()));
        }
        files
    }
}

pub fn exactly(bytes: u64) -> Option<CapacityRange> {
    (bytes > 0).then(|| CapacityRange {
        required_bytes: bytes.try_into().unwrap(),
        limit_bytes: 0,
    })
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub fn mount(fs_type: &str, mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: fs_type.to_owned(),
            ..MountVolume::default()
        })),
    }
}

pub fn filesystem(fs_type: &str) -> VolumeCapability {
    mount(fs_type, Mode::SingleNodeWriter)
}

pub fn block() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

pub fn from_snapshot(id: &str) -> Type {
    Type::Snapshot(SnapshotSource {
        snapshot_id: id.to_owned(),
    })
}

pub fn from_volume(id: &str) -> Type {
    Type::Volume(VolumeSource {
        volume_id: id.to_owned(),
    })
}
