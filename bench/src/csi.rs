//! A driver's socket, as a cluster uses it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, VolumeCapability,
};

pub type Controller = ControllerClient<Connection>;
pub type Node = NodeClient<Connection>;

/// Clients of the driver at a socket; they share a connection.
pub fn connect(socket: &Path) -> anyhow::Result<(Controller, Node)> {
    let options = ClientOptions {
        timeout: Duration::from_secs(120),
        patience: Duration::from_secs(10),
        metrics: ClientMetrics::default(),
    };
    let connection = Connection::new(&Endpoint::try_from(socket)?, options);
    Ok((
        ControllerClient::new(connection.clone()),
        NodeClient::new(connection),
    ))
}

/// The size of a volume of arrays.
pub const SIZE: i64 = 1 << 30;

/// Asks for a volume of this size, in this mode.
pub fn volume(name: &str, bytes: i64, mode: Mode) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability(mode)],
        ..CreateVolumeRequest::default()
    }
}

/// Makes a volume, and returns its id.
pub async fn create(
    controller: &Controller,
    request: CreateVolumeRequest,
) -> anyhow::Result<String> {
    let answer = controller.clone().create_volume(request).await?;
    let volume = answer.into_inner().volume;
    Ok(volume.context("an answer without a volume")?.volume_id)
}

/// Deletes a volume.
pub async fn delete(controller: &Controller, request: DeleteVolumeRequest) -> anyhow::Result<()> {
    controller.clone().delete_volume(request).await?;
    Ok(())
}

/// A mounted filesystem, in this mode.
pub fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}
