//! A driver under test with its array and its clients, and verbs for what a cluster does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume,
};
use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use stowage_csi::proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerModifyVolumeRequest,
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodeUnpublishVolumeRequest, Snapshot, Volume, VolumeCapability, VolumeContentSource,
};
use stowage_csi::server::Shutdown;
use stowage_service::Health;
use stowage_weka::{Args, Metrics, Reports, StartError, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::cluster::Cluster;

pub const GIB: u64 = 1 << 30;

#[derive(Parser)]
pub struct Command {
    #[command(flatten)]
    pub args: Args,
}

pub type Map = BTreeMap<String, String>;

/// The flags of a driver whose files are all below `directory`.
pub fn flags(directory: &Path, more: &[&str]) -> Vec<String> {
    let place = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    let mut flags = vec![
        "weka".to_owned(),
        "--nodeid=node-1".to_owned(),
        place("endpoint", "csi.sock"),
        place("mount-base", "mounts"),
        place("legacy-volume-access", "legacy"),
        place("proc-modules", "modules"),
        place("proc-wekafs-interface", "interface"),
    ];
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    flags
}

/// Runs a driver until it is stopped.
pub async fn drive(
    flags: Vec<String>,
    weka: Metrics,
    health: Health,
    stop: CancellationToken,
) -> Result<(), StartError> {
    let reports = Reports {
        server: ServerMetrics::default(),
        weka,
        process: stowage_service::Metrics::new(),
        health,
    };
    let shutdown = Shutdown {
        token: stop,
        grace: Duration::from_secs(5),
    };
    run(Command::parse_from(flags).args, reports, shutdown).await
}

pub struct Rig {
    pub directory: PathBuf,
    pub secret: Map,
    pub connection: Connection,
    pub controller: ControllerClient<Connection>,
    pub node: NodeClient<Connection>,
    /// What it says of itself, if it runs here.
    pub health: Health,
    registry: Registry,
    stop: CancellationToken,
    served: JoinHandle<Result<(), StartError>>,
}

impl Rig {
    pub fn start(directory: &Path, cluster: &Cluster, more: &[&str]) -> Self {
        let stop = CancellationToken::new();
        let mut rig = Self::of_process(directory, cluster);
        let metrics = Metrics::register(&mut rig.registry, "csi.weka.io");
        let flags = flags(directory, more);
        let served = tokio::spawn(drive(flags, metrics, rig.health.clone(), stop.clone()));
        rig.stop = stop;
        rig.served = served;
        rig
    }

    /// Clients of a driver that runs elsewhere.
    pub fn of_process(directory: &Path, cluster: &Cluster) -> Self {
        let endpoint = Endpoint::try_from(directory.join("csi.sock").as_path()).unwrap();
        let options = ClientOptions {
            timeout: Duration::from_secs(20),
            patience: Duration::from_secs(10),
            metrics: ClientMetrics::default(),
        };
        let connection = Connection::new(&endpoint, options);
        Self {
            directory: directory.to_owned(),
            secret: cluster.secret(),
            controller: ControllerClient::new(connection.clone()),
            node: NodeClient::new(connection.clone()),
            connection,
            health: Health::default(),
            registry: Registry::default(),
            stop: CancellationToken::new(),
            served: tokio::spawn(async { Ok(()) }),
        }
    }

    /// The lines of one metric.
    pub fn metric(&self, name: &str) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let start = format!("{name}{{");
        let lines = text.lines().filter(|line| line.starts_with(&start));
        lines.map(str::to_owned).collect()
    }

    /// With other secrets.
    pub fn with_secret(mut self, secret: Map) -> Self {
        self.secret = secret;
        self
    }

    /// Without secrets: the model without API.
    pub fn legacy(self) -> Self {
        self.with_secret(Map::new())
    }

    pub async fn stop(self) {
        self.stop_with(&[]).await;
    }

    /// Stops it; of its mounts only these stay, which it has not made.
    pub async fn stop_with(mut self, left: &[PathBuf]) {
        self.stop.cancel();
        (&mut self.served).await.unwrap().unwrap();
        let mounts: Vec<_> = self
            .mounts("mounts")
            .into_iter()
            .map(PathBuf::from)
            .collect();
        assert_eq!(mounts, left, "nothing else stays mounted");
    }

    /// What is mounted below a directory of the test.
    pub fn mounts(&self, below: &str) -> Vec<String> {
        let below = self.directory.join(below);
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = text
            .lines()
            .map(|line| line.split(' ').nth(4).unwrap().to_owned());
        points
            .filter(|point| Path::new(point).starts_with(&below))
            .collect()
    }

    pub fn request(&self, name: &str, bytes: u64, more: &[(&str, &str)]) -> CreateVolumeRequest {
        let mut parameters = map(&[("volumeType", "dir/v1"), ("filesystemName", "default")]);
        parameters.extend(map(more));
        parameters.retain(|_, value| value != "-");
        CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: range(bytes),
            volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
            parameters,
            secrets: self.secret.clone(),
            ..CreateVolumeRequest::default()
        }
    }

    pub async fn send(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer = self.controller.clone().create_volume(request).await?;
        Ok(answer.into_inner().volume.unwrap())
    }

    pub async fn create(
        &self,
        name: &str,
        bytes: u64,
        more: &[(&str, &str)],
    ) -> Result<Volume, Status> {
        self.send(self.request(name, bytes, more)).await
    }

    pub async fn snapshot(&self, name: &str, volume: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: volume.to_owned(),
            secrets: self.secret.clone(),
            ..CreateSnapshotRequest::default()
        };
        let answer = self.controller.clone().create_snapshot(request).await?;
        Ok(answer.into_inner().snapshot.unwrap())
    }

    pub async fn delete_snapshot(&self, id: &str) -> Result<(), Status> {
        let request = DeleteSnapshotRequest {
            snapshot_id: id.to_owned(),
            secrets: self.secret.clone(),
        };
        self.controller.clone().delete_snapshot(request).await?;
        Ok(())
    }

    /// A volume that begins as a copy of a snapshot or a volume.
    pub async fn copy(
        &self,
        name: &str,
        bytes: u64,
        source: Type,
        more: &[(&str, &str)],
    ) -> Result<Volume, Status> {
        let mut request = self.request(name, bytes, more);
        request.volume_content_source = Some(VolumeContentSource {
            r#type: Some(source),
        });
        self.send(request).await
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: self.secret.clone(),
        };
        self.controller.clone().delete_volume(request).await?;
        Ok(())
    }

    pub async fn expand(&self, id: &str, bytes: u64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: range(bytes),
            secrets: self.secret.clone(),
            ..ControllerExpandVolumeRequest::default()
        };
        let answer = self
            .controller
            .clone()
            .controller_expand_volume(request)
            .await?;
        Ok(answer.into_inner().capacity_bytes)
    }

    pub async fn modify(&self, id: &str, parameters: &[(&str, &str)]) -> Result<(), Status> {
        let request = ControllerModifyVolumeRequest {
            volume_id: id.to_owned(),
            mutable_parameters: map(parameters),
            secrets: self.secret.clone(),
        };
        self.controller
            .clone()
            .controller_modify_volume(request)
            .await?;
        Ok(())
    }

    /// Where a pod has its volume.
    pub fn target(&self, pod: &str) -> PathBuf {
        self.directory.join("pods").join(pod).join("mount")
    }

    pub async fn publish(&self, id: &str, pod: &str, mode: Mode) -> Result<PathBuf, Status> {
        let target = self.target(pod);
        let request = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.to_str().unwrap().to_owned(),
            volume_capability: Some(capability(mode)),
            secrets: self.secret.clone(),
            ..NodePublishVolumeRequest::default()
        };
        self.node.clone().node_publish_volume(request).await?;
        Ok(target)
    }

    pub async fn stats(&self, id: &str, pod: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: self.target(pod).to_str().unwrap().to_owned(),
            ..NodeGetVolumeStatsRequest::default()
        };
        let answer = self.node.clone().node_get_volume_stats(request).await?;
        Ok(answer.into_inner())
    }

    pub async fn unpublish(&self, id: &str, pod: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: self.target(pod).to_str().unwrap().to_owned(),
        };
        self.node.clone().node_unpublish_volume(request).await?;
        Ok(())
    }
}

pub fn of_snapshot(id: &str) -> Type {
    Type::Snapshot(SnapshotSource {
        snapshot_id: id.to_owned(),
    })
}

pub fn of_volume(id: &str) -> Type {
    Type::Volume(VolumeSource {
        volume_id: id.to_owned(),
    })
}

/// A class whose volumes are snapshots of a filesystem.
pub const SNAPSHOTS: [(&str, &str); 2] = [("volumeType", "-"), ("filesystemName", "empty")];

/// A class whose volumes are filesystems.
pub const FILESYSTEMS: [(&str, &str); 3] = [
    ("volumeType", "-"),
    ("filesystemName", "-"),
    ("filesystemGroupName", "default"),
];

/// Everything that a driver may be allowed to do.
pub const ALLOWED: [&str; 3] = [
    "--allowautofscreation",
    "--allowautofsexpansion",
    "--allowsnapshotsofdirectoryvolumes",
];

pub fn map(entries: &[(&str, &str)]) -> Map {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

pub fn range(bytes: u64) -> Option<CapacityRange> {
    (bytes > 0).then(|| CapacityRange {
        required_bytes: bytes.try_into().unwrap(),
        limit_bytes: 0,
    })
}

pub fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..capability(Mode::SingleNodeWriter)
    }
}

/// Whether a refusal is the right one.
#[track_caller]
pub fn expect<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, words: &[&str]) {
    let refused = answer.unwrap_err();
    assert_eq!(refused.code(), code, "{refused}");
    for word in words {
        assert!(refused.message().contains(word), "{word}: {refused}");
    }
}

/// Waits for something that happens in the background.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} does not come");
}
