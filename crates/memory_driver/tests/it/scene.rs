//! A driver, its socket, and requests.

use std::collections::BTreeMap;
use std::time::Duration;

use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::{
    CapacityRange, ControllerPublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    DeleteVolumeRequest, Snapshot, Topology, Volume, VolumeCapability,
};
use stowage_memory_driver::{MemoryDriver, Profile, Serving};
use tempfile::TempDir;
use tonic::Status;

pub const GIB: i64 = 1 << 30;
/// No call of a driver in memory takes longer unless it was told to.
pub const SOON: Duration = Duration::from_secs(5);

pub struct Scene {
    pub driver: MemoryDriver,
    pub serving: Option<Serving>,
    pub connection: Connection,
    pub folder: TempDir,
}

impl Scene {
    pub fn start() -> Self {
        Self::of(MemoryDriver::default())
    }

    pub fn with(profile: Profile) -> Self {
        Self::of(MemoryDriver::new(profile))
    }

    pub fn of(driver: MemoryDriver) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoint = endpoint_in(&folder);
        Self {
            serving: Some(driver.serve(&endpoint).expect("a socket")),
            connection: connect(&endpoint),
            driver,
            folder,
        }
    }

    pub fn serve_again(&mut self) {
        self.serving = Some(
            self.driver
                .serve(&endpoint_in(&self.folder))
                .expect("a socket"),
        );
    }

    pub fn controller(&self) -> ControllerClient<Connection> {
        ControllerClient::new(self.connection.clone())
    }

    pub fn identity(&self) -> IdentityClient<Connection> {
        IdentityClient::new(self.connection.clone())
    }

    pub async fn create(&self, name: &str) -> Result<Volume, Status> {
        self.create_as(volume(name)).await
    }

    pub async fn create_as(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer = self.controller().create_volume(request).await?;
        Ok(answer.into_inner().volume.expect("a volume"))
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        self.controller().delete_volume(request).await.map(drop)
    }

    pub async fn publish(&self, id: &str, node: &str, mode: Mode) -> Result<(), Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            volume_capability: Some(capability(mode)),
            ..Default::default()
        };
        let published = self.controller().controller_publish_volume(request).await;
        published.map(drop)
    }

    pub async fn snapshot(&self, name: &str, source: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            source_volume_id: source.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        let answer = self.controller().create_snapshot(request).await?;
        Ok(answer.into_inner().snapshot.expect("a snapshot"))
    }
}

pub fn endpoint_in(folder: &TempDir) -> Endpoint {
    Endpoint::try_from(folder.path().join("csi.sock").as_path()).expect("a short path")
}

pub fn connect(endpoint: &Endpoint) -> Connection {
    let options = ClientOptions {
        timeout: SOON,
        patience: SOON,
        metrics: ClientMetrics::default(),
    };
    Connection::new(endpoint, options)
}

pub fn volume(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: GIB,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
        ..Default::default()
    }
}

pub fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

pub fn zone(name: &str) -> Topology {
    Topology {
        segments: text(&[("zone", name)]),
    }
}
