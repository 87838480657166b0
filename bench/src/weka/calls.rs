//! What a cluster asks of the driver.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{
    CreateVolumeRequest, DeleteVolumeRequest, NodePublishVolumeRequest, NodeUnpublishVolumeRequest,
};

use super::backing::Backing;
use super::stage::Stage;
use crate::csi::{self, Controller, Node, SIZE, capability};

/// The driver, with the secret and the class of its volumes.
pub struct Calls {
    controller: Controller,
    node: Node,
    secrets: BTreeMap<String, String>,
    parameters: BTreeMap<String, String>,
    pods: PathBuf,
}

impl Calls {
    pub fn connect(stage: &Stage, backing: Backing) -> anyhow::Result<Self> {
        let (controller, node) = csi::connect(&stage.socket())?;
        let map = |entries: &[(&str, &str)]| {
            let entries = entries.iter();
            entries
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        Ok(Self {
            controller,
            node,
            secrets: map(&[
                ("username", "admin"),
                ("password", "admin"),
                ("organization", "Root"),
                ("endpoints", &stage.endpoint),
                ("scheme", "http"),
            ]),
            parameters: map(backing.class()),
            pods: stage.pods(),
        })
    }

    /// Makes a volume; its id.
    pub async fn create(&self, name: &str) -> anyhow::Result<String> {
        let request = CreateVolumeRequest {
            parameters: self.parameters.clone(),
            secrets: self.secrets.clone(),
            ..csi::volume(name, SIZE, Mode::MultiNodeMultiWriter)
        };
        csi::create(&self.controller, request).await
    }

    pub async fn delete(&self, id: &str) -> anyhow::Result<()> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: self.secrets.clone(),
        };
        csi::delete(&self.controller, request).await
    }

    pub async fn publish(&self, id: &str) -> anyhow::Result<()> {
        let request = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: self.target(id),
            volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
            secrets: self.secrets.clone(),
            ..NodePublishVolumeRequest::default()
        };
        self.node.clone().node_publish_volume(request).await?;
        Ok(())
    }

    pub async fn unpublish(&self, id: &str) -> anyhow::Result<()> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: self.target(id),
        };
        self.node.clone().node_unpublish_volume(request).await?;
        Ok(())
    }

    fn target(&self, id: &str) -> String {
        let pod = self.pods.join(id.replace('/', "_"));
        pod.join("mount").display().to_string()
    }
}
