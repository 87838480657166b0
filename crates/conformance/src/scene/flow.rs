//! A volume's way to a path on the node: create, attach, stage, publish.
//! Steps that a driver does not have are left out, as Kubernetes would.

use std::collections::BTreeMap;

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    NodePublishVolumeRequest, NodeStageVolumeRequest, Volume, VolumeCapability,
};

use super::Scene;
use crate::capability::{ControllerRpc, Need, NodeRpc};
use crate::check::Checked;

/// A volume on its way.
pub(crate) struct Flow {
    pub(crate) volume: Volume,
    pub(crate) capability: VolumeCapability,
    /// What the controller told the node.
    pub(crate) publish_context: BTreeMap<String, String>,
    /// Empty if the driver does not stage.
    pub(crate) staging: String,
    pub(crate) target: String,
}

impl Flow {
    pub(crate) fn stage_request(&self) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: self.volume.volume_id.clone(),
            publish_context: self.publish_context.clone(),
            staging_target_path: self.staging.clone(),
            volume_capability: Some(self.capability.clone()),
            volume_context: self.volume.volume_context.clone(),
            ..Default::default()
        }
    }

    pub(crate) fn publish_request(&self) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: self.volume.volume_id.clone(),
            publish_context: self.publish_context.clone(),
            staging_target_path: self.staging.clone(),
            target_path: self.target.clone(),
            volume_capability: Some(self.capability.clone()),
            volume_context: self.volume.volume_context.clone(),
            ..Default::default()
        }
    }
}

impl Scene {
    /// A new volume that is attached to this node, not yet staged.
    pub(crate) async fn attached(&mut self, mode: Mode) -> Checked<Flow> {
        let mut request = self.volume_request_here()?;
        request.volume_capabilities = vec![self.capability_for(mode)];
        let volume = self.create_volume(request).await.volume()?;
        self.attach(volume, mode).await
    }

    /// Attaches a volume to this node, if the driver does that, and prepares the paths.
    pub(crate) async fn attach(&mut self, volume: Volume, mode: Mode) -> Checked<Flow> {
        let capability = self.capability_for(mode);
        let mut publish_context = BTreeMap::new();
        if self.has(Need::Controller(ControllerRpc::PublishUnpublishVolume))? {
            let mut request = self.publish_request(&volume)?;
            request.volume_capability = Some(capability.clone());
            publish_context = self.controller_publish(request).await.ok()?.publish_context;
        }
        let staging = if self.has(Need::Node(NodeRpc::StageUnstageVolume))? {
            self.staging().await?
        } else {
            String::new()
        };
        Ok(Flow {
            volume,
            capability,
            publish_context,
            staging,
            target: self.target("target").await?,
        })
    }

    /// Stages the volume, if the driver does that. Called twice: the driver must answer the same.
    pub(crate) async fn stage(&mut self, flow: &Flow) -> Checked {
        if !flow.staging.is_empty() {
            self.node_stage(flow.stage_request()).await.ok()?;
        }
        Ok(())
    }

    /// A new volume at a target path.
    pub(crate) async fn published(&mut self) -> Checked<Flow> {
        let flow = self.attached(Mode::SingleNodeWriter).await?;
        self.stage(&flow).await?;
        self.node_publish(flow.publish_request()).await.ok()?;
        Ok(flow)
    }
}
