//! What a driver says about itself.

use std::collections::BTreeSet;

use stowage_csi::check::Rules;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::node_service_capability::rpc::Type as NodeCan;

const CONTROLLER: &[Can] = &[
    Can::CreateDeleteVolume,
    Can::PublishUnpublishVolume,
    Can::ListVolumes,
    Can::GetCapacity,
    Can::CreateDeleteSnapshot,
    Can::ListSnapshots,
    Can::CloneVolume,
    Can::PublishReadonly,
    Can::ExpandVolume,
    Can::ListVolumesPublishedNodes,
    Can::GetVolume,
    Can::SingleNodeMultiWriter,
    Can::ModifyVolume,
    Can::GetSnapshot,
];
const NODE: &[NodeCan] = &[
    NodeCan::StageUnstageVolume,
    NodeCan::GetVolumeStats,
    NodeCan::ExpandVolume,
    NodeCan::SingleNodeMultiWriter,
];

/// Name and capabilities of a driver. What is not advertised answers UNIMPLEMENTED. The default can
/// everything but groups of snapshots.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What `GetPluginInfo` says.
    pub name: String,
    /// Capabilities of the controller; none means that there is no controller.
    pub controller: Vec<Can>,
    /// Capabilities of the node.
    pub node: Vec<NodeCan>,
    /// Whether volumes are somewhere (`VOLUME_ACCESSIBILITY_CONSTRAINTS`).
    pub topology: bool,
    /// Whether there is a group controller.
    pub groups: bool,
    /// When volumes can grow.
    pub expansion: Expansion,
    /// Whether a grown volume must also grow on its node.
    pub expands_on_node: bool,
    /// Nodes that volumes can be published to; none means any.
    pub nodes: BTreeSet<String>,
    /// Volumes that fit on one node; zero means any number.
    pub volumes_per_node: i64,
}

/// When volumes can grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// Never.
    No,
    /// At any time.
    Online,
    /// While nobody uses them.
    Offline,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name: "memory.csi.test".to_owned(),
            controller: CONTROLLER.to_vec(),
            node: NODE.to_vec(),
            topology: true,
            groups: false,
            expansion: Expansion::Online,
            expands_on_node: true,
            nodes: BTreeSet::new(),
            volumes_per_node: 0,
        }
    }
}

impl Profile {
    /// A driver of this name, otherwise the default.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// A driver that has a controller with these capabilities only.
    pub fn with_controller(mut self, capabilities: &[Can]) -> Self {
        self.controller = capabilities.to_vec();
        self
    }

    /// The same without one capability of the controller.
    pub fn without(mut self, capability: Can) -> Self {
        self.controller.retain(|kept| *kept != capability);
        self
    }

    pub(super) fn can(&self, capability: Can) -> bool {
        self.controller.contains(&capability)
    }

    pub(super) fn node_can(&self, capability: NodeCan) -> bool {
        self.node.contains(&capability)
    }

    /// The name of the node that this driver says it runs on.
    pub(super) fn node_id(&self) -> &str {
        self.nodes.first().map_or("node-1", String::as_str)
    }

    /// Rules live for ever in a driver, so for a test's driver they are leaked: some bytes each.
    pub(super) fn rules(&self) -> Rules<'static> {
        Rules::new(self.controller.clone().leak(), self.node.clone().leak())
    }
}

/// The capability without which an RPC of the controller is not there.
pub(super) fn needed(rpc: &str) -> Option<Can> {
    Some(match rpc {
        "CreateVolume" | "DeleteVolume" => Can::CreateDeleteVolume,
        "ControllerPublishVolume" | "ControllerUnpublishVolume" => Can::PublishUnpublishVolume,
        "ListVolumes" => Can::ListVolumes,
        "GetCapacity" => Can::GetCapacity,
        "CreateSnapshot" | "DeleteSnapshot" => Can::CreateDeleteSnapshot,
        "ListSnapshots" => Can::ListSnapshots,
        "GetSnapshot" => Can::GetSnapshot,
        "ControllerExpandVolume" => Can::ExpandVolume,
        "ControllerGetVolume" => Can::GetVolume,
        "ControllerModifyVolume" => Can::ModifyVolume,
        _ => return None,
    })
}
