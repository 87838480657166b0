//! The calls that a sidecar and a kubelet make, and trouble for the array.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::json;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume,
};
use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type};
use stowage_csi::proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    DeleteVolumeRequest, NodeExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability, VolumeContentSource,
};
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};
use tonic::Status;

use crate::driver::rig::{NODE, Rig};

pub const GIB: i64 = 1 << 30;

pub fn capability(raw: bool) -> VolumeCapability {
    let access_type = if raw {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume::default())
    };
    VolumeCapability {
        access_type: Some(access_type),
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
    }
}

/// What a kubelet writes down of a volume.
fn note(directory: &Path, used: &Used) {
    let note =
        json!({"driverName": "csi.zadara.com", "specVolID": used.id, "volumeHandle": used.id});
    fs::write(directory.join("vol_data.json"), note.to_string()).unwrap();
}

/// A volume, and how it is used.
pub struct Used {
    pub id: String,
    pub raw: bool,
    pub context: BTreeMap<String, String>,
}

impl Rig {
    pub async fn create(
        &mut self,
        name: &str,
        gib: i64,
        raw: bool,
        snapshot: Option<&str>,
    ) -> Result<Used, Status> {
        let source = snapshot.map(|id| VolumeContentSource {
            r#type: Some(Type::Snapshot(SnapshotSource {
                snapshot_id: id.to_owned(),
            })),
        });
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: gib * GIB,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![capability(raw)],
            volume_content_source: source,
            ..CreateVolumeRequest::default()
        };
        let made = self.controller.create_volume(request).await?.into_inner();
        let volume = made.volume.unwrap();
        assert_eq!(volume.capacity_bytes, gib * GIB);
        Ok(Used {
            id: volume.volume_id,
            raw,
            context: BTreeMap::new(),
        })
    }

    /// Where a kubelet stages it, with the kubelet's note beside it.
    pub fn staging(&self, used: &Used) -> String {
        let volume = self
            .path("kubelet/plugins/kubernetes.io/csi/pv")
            .join(&used.id);
        let staging = volume.join("globalmount");
        fs::create_dir_all(&volume).unwrap();
        // What is mounted there may not answer.
        if let Err(error) = fs::create_dir(&staging) {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        }
        note(&volume, used);
        staging.display().to_string()
    }

    /// Where a kubelet shows it to a pod.
    pub fn target(&self, used: &Used) -> PathBuf {
        let volumes = self.path("kubelet/pods/uid/volumes/kubernetes.io~csi");
        let volume = volumes.join(&used.id);
        fs::create_dir_all(&volume).unwrap();
        note(&volume, used);
        volume.join("mount")
    }

    pub async fn attach(&mut self, used: &mut Used) -> Result<(), Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: used.id.clone(),
            node_id: NODE.to_owned(),
            volume_capability: Some(capability(used.raw)),
            ..ControllerPublishVolumeRequest::default()
        };
        let answer = self.controller.controller_publish_volume(request).await?;
        used.context = answer.into_inner().publish_context;
        Ok(())
    }

    pub fn stage_request(&self, used: &Used) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: used.id.clone(),
            publish_context: used.context.clone(),
            staging_target_path: self.staging(used),
            volume_capability: Some(capability(used.raw)),
            ..NodeStageVolumeRequest::default()
        }
    }

    pub async fn stage(&mut self, used: &Used) -> Result<(), Status> {
        let request = self.stage_request(used);
        self.node.node_stage_volume(request).await.map(drop)
    }

    /// Attaches, stages and publishes; where a pod finds it.
    pub async fn publish(&mut self, used: &mut Used) -> Result<PathBuf, Status> {
        self.attach(used).await?;
        self.stage(used).await?;
        let target = self.target(used);
        let request = NodePublishVolumeRequest {
            volume_id: used.id.clone(),
            publish_context: used.context.clone(),
            staging_target_path: self.staging(used),
            target_path: target.display().to_string(),
            volume_capability: Some(capability(used.raw)),
            ..NodePublishVolumeRequest::default()
        };
        self.node.node_publish_volume(request).await?;
        Ok(target)
    }

    pub async fn unpublish(&mut self, used: &Used) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: used.id.clone(),
            target_path: self.target(used).display().to_string(),
        };
        self.node.node_unpublish_volume(request).await?;
        let request = NodeUnstageVolumeRequest {
            volume_id: used.id.clone(),
            staging_target_path: self.staging(used),
        };
        self.node.node_unstage_volume(request).await?;
        let request = ControllerUnpublishVolumeRequest {
            volume_id: used.id.clone(),
            node_id: NODE.to_owned(),
            ..ControllerUnpublishVolumeRequest::default()
        };
        self.controller
            .controller_unpublish_volume(request)
            .await
            .map(drop)
    }

    pub async fn grow(&mut self, used: &Used, gib: i64) {
        let range = Some(CapacityRange {
            required_bytes: gib * GIB,
            limit_bytes: 0,
        });
        let request = ControllerExpandVolumeRequest {
            volume_id: used.id.clone(),
            capacity_range: range,
            ..ControllerExpandVolumeRequest::default()
        };
        let grown = self
            .controller
            .controller_expand_volume(request)
            .await
            .unwrap();
        let grown = grown.into_inner();
        assert_eq!(grown.capacity_bytes, gib * GIB);
        if grown.node_expansion_required {
            let request = NodeExpandVolumeRequest {
                volume_id: used.id.clone(),
                volume_path: self.target(used).display().to_string(),
                capacity_range: range,
                ..NodeExpandVolumeRequest::default()
            };
            self.node.node_expand_volume(request).await.unwrap();
        }
    }

    pub async fn snapshot(&mut self, name: &str, used: &Used) -> String {
        let request = CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: used.id.clone(),
            ..CreateSnapshotRequest::default()
        };
        let taken = self.controller.create_snapshot(request).await.unwrap();
        let snapshot = taken.into_inner().snapshot.unwrap();
        assert!(snapshot.ready_to_use);
        snapshot.snapshot_id
    }

    pub async fn delete(&mut self, used: Used) {
        let request = DeleteVolumeRequest {
            volume_id: used.id,
            ..DeleteVolumeRequest::default()
        };
        self.controller.delete_volume(request).await.unwrap();
    }

    /// The array refuses, until [`Rig::mend`].
    pub async fn fault(&self, method: &str, path: &str, message: &str) {
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            trouble: Trouble::from(Own::Say {
                status: 7,
                message: message.to_owned(),
            }),
            ..Fault::default()
        };
        self.array.control().add_fault(fault).await.unwrap();
    }

    pub async fn mend(&self) {
        self.array.control().clear_faults().await.unwrap();
    }
}
