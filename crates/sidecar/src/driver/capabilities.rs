//! What a driver can do, as a set that is cheap to copy and compare.

use std::fmt;

use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Controller;
use stowage_csi::proto::csi::group_controller_service_capability::rpc::Type as Group;
use stowage_csi::proto::csi::node_service_capability::rpc::Type as Node;
use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
use stowage_csi::proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use stowage_csi::proto::csi::{
    ControllerGetCapabilitiesResponse, GetPluginCapabilitiesResponse,
    GroupControllerGetCapabilitiesResponse, NodeGetCapabilitiesResponse,
    controller_service_capability, group_controller_service_capability, node_service_capability,
    plugin_capability,
};

/// Everything a driver says it can do. What it did not say, or what we do not know, is not in it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    services: Numbers,
    expansion: Numbers,
    controller: Numbers,
    group: Numbers,
    node: Numbers,
}

/// A set of small numbers. Those of the protocol stay far below 32; a larger one is not known to us.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Numbers(u32);

impl Numbers {
    fn has(self, number: impl Into<i32>) -> bool {
        self.0 & bit(number.into()) != 0
    }

    fn without(self, number: impl Into<i32>) -> Self {
        Self(self.0 & !bit(number.into()))
    }
}

impl FromIterator<i32> for Numbers {
    fn from_iter<I: IntoIterator<Item = i32>>(numbers: I) -> Self {
        Self(numbers.into_iter().fold(0, |set, number| set | bit(number)))
    }
}

/// Zero stands for "unknown" in every enumeration of the protocol, so it is never in a set.
fn bit(number: i32) -> u32 {
    match u32::try_from(number) {
        Ok(number @ 1..) => 1_u32.checked_shl(number).unwrap_or(0),
        _ => 0,
    }
}

/// Questions that are one number in one of the sets.
macro_rules! questions {
    ($($(#[$doc:meta])* $question:ident: $set:ident $number:path;)*) => {
        impl Capabilities {
            $($(#[$doc])* pub fn $question(self) -> bool { self.$set.has($number) })*

            /// The names of the questions above that are answered with yes.
            fn names(self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$question() { names.push(stringify!($question)); })*
                names
            }
        }
    };
}

questions! {
    /// The socket serves the controller's RPCs.
    controller_service: services Service::ControllerService;
    /// Volumes are not reachable from everywhere: topology.
    volume_accessibility_constraints: services Service::VolumeAccessibilityConstraints;
    /// The socket serves the group controller's RPCs.
    group_controller_service: services Service::GroupControllerService;
    /// The socket serves changed blocks of snapshots.
    snapshot_metadata_service: services Service::SnapshotMetadataService;
    /// Volumes can be expanded while they are in use.
    online_expansion: expansion Expansion::Online;
    /// Volumes can be expanded while nobody uses them.
    offline_expansion: expansion Expansion::Offline;
    /// CreateVolume and DeleteVolume.
    create_delete_volume: controller Controller::CreateDeleteVolume;
    /// ControllerPublishVolume and ControllerUnpublishVolume.
    publish_unpublish: controller Controller::PublishUnpublishVolume;
    /// ControllerPublishVolume understands `readonly`.
    publish_readonly: controller Controller::PublishReadonly;
    /// ListVolumes.
    list_volumes: controller Controller::ListVolumes;
    /// ListVolumes says where volumes are published.
    list_volumes_published_nodes: controller Controller::ListVolumesPublishedNodes;
    /// ControllerGetVolume.
    get_volume: controller Controller::GetVolume;
    /// GetCapacity.
    get_capacity: controller Controller::GetCapacity;
    /// CreateVolume copies another volume.
    clone_volume: controller Controller::CloneVolume;
    /// ControllerExpandVolume.
    expand_volume: controller Controller::ExpandVolume;
    /// ControllerModifyVolume.
    modify_volume: controller Controller::ModifyVolume;
    /// The two access modes for one node are understood.
    single_node_multi_writer: controller Controller::SingleNodeMultiWriter;
    /// CreateSnapshot and DeleteSnapshot.
    create_delete_snapshot: controller Controller::CreateDeleteSnapshot;
    /// ListSnapshots.
    list_snapshots: controller Controller::ListSnapshots;
    /// GetSnapshot.
    get_snapshot: controller Controller::GetSnapshot;
    /// Snapshots of several volumes at one moment.
    group_snapshot: group Group::CreateDeleteGetVolumeGroupSnapshot;
    /// NodeStageVolume and NodeUnstageVolume.
    node_stage_unstage: node Node::StageUnstageVolume;
    /// NodeGetVolumeStats.
    node_get_volume_stats: node Node::GetVolumeStats;
    /// NodeExpandVolume.
    node_expand_volume: node Node::ExpandVolume;
    /// The node understands the two access modes for one node.
    node_single_node_multi_writer: node Node::SingleNodeMultiWriter;
    /// The node applies a group to a volume while it mounts it.
    node_volume_mount_group: node Node::VolumeMountGroup;
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        f.write_str(&self.names().join(" "))?;
        f.write_str("]")
    }
}

impl Capabilities {
    /// The same, but that volumes are reachable from everywhere.
    pub(crate) fn without_topology(self) -> Self {
        Self {
            services: self
                .services
                .without(Service::VolumeAccessibilityConstraints),
            ..self
        }
    }
}

/// Answers of a driver become part of the set.
impl Capabilities {
    /// The answer to GetPluginCapabilities.
    pub fn with_plugin(mut self, answer: &GetPluginCapabilitiesResponse) -> Self {
        use plugin_capability::Type;
        let kinds = || answer.capabilities.iter().filter_map(|c| c.r#type.as_ref());
        let services = kinds().filter_map(|kind| match kind {
            Type::Service(service) => Some(service.r#type),
            Type::VolumeExpansion(_) => None,
        });
        self.services = services.collect();
        let expansion = kinds().filter_map(|kind| match kind {
            Type::VolumeExpansion(expansion) => Some(expansion.r#type),
            Type::Service(_) => None,
        });
        self.expansion = expansion.collect();
        self
    }

    /// The answer to ControllerGetCapabilities.
    pub fn with_controller(mut self, answer: &ControllerGetCapabilitiesResponse) -> Self {
        use controller_service_capability::Type;
        let kinds = answer.capabilities.iter().filter_map(|c| c.r#type.as_ref());
        self.controller = kinds.map(|Type::Rpc(rpc)| rpc.r#type).collect();
        self
    }

    /// The answer to GroupControllerGetCapabilities.
    pub fn with_group(mut self, answer: &GroupControllerGetCapabilitiesResponse) -> Self {
        use group_controller_service_capability::Type;
        let kinds = answer.capabilities.iter().filter_map(|c| c.r#type.as_ref());
        self.group = kinds.map(|Type::Rpc(rpc)| rpc.r#type).collect();
        self
    }

    /// The answer to NodeGetCapabilities.
    pub fn with_node(mut self, answer: &NodeGetCapabilitiesResponse) -> Self {
        use node_service_capability::Type;
        let kinds = answer.capabilities.iter().filter_map(|c| c.r#type.as_ref());
        self.node = kinds.map(|Type::Rpc(rpc)| rpc.r#type).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use stowage_csi::proto::csi::{
        ControllerServiceCapability, NodeServiceCapability, PluginCapability,
    };

    use super::*;

    fn controller(numbers: &[i32]) -> ControllerGetCapabilitiesResponse {
        let capability = |number: &i32| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(
                controller_service_capability::Rpc { r#type: *number },
            )),
        };
        ControllerGetCapabilitiesResponse {
            capabilities: numbers.iter().map(capability).collect(),
        }
    }

    #[test]
    fn each_service_has_its_own_numbers() {
        let expand = Controller::ExpandVolume as i32;
        let found = Capabilities::default().with_controller(&controller(&[expand]));
        assert!(found.expand_volume());
        assert!(!found.node_expand_volume());
        assert_eq!(format!("{found:?}"), "[expand_volume]");

        let node = NodeGetCapabilitiesResponse {
            capabilities: vec![NodeServiceCapability {
                r#type: Some(node_service_capability::Type::Rpc(
                    node_service_capability::Rpc {
                        r#type: Node::ExpandVolume as i32,
                    },
                )),
            }],
        };
        let both = found.with_node(&node);
        assert!(both.expand_volume() && both.node_expand_volume());
        assert_ne!(both, found);
    }

    #[test]
    fn services_and_expansion_come_in_one_answer() {
        use plugin_capability::{Service as ServiceKind, Type, VolumeExpansion};
        let kinds = [
            Type::Service(ServiceKind {
                r#type: Service::ControllerService as i32,
            }),
            Type::VolumeExpansion(VolumeExpansion {
                r#type: Expansion::Offline as i32,
            }),
        ];
        let answer = GetPluginCapabilitiesResponse {
            capabilities: kinds
                .map(|kind| PluginCapability { r#type: Some(kind) })
                .to_vec(),
        };
        let found = Capabilities::default().with_plugin(&answer);
        // Both have the numbers 1 and 2 in the protocol.
        assert_eq!(
            found.names(),
            ["controller_service", "offline_expansion"],
            "{found:?}"
        );
    }

    #[test]
    fn numbers_from_the_future_and_garbage_are_not_in_the_set() {
        let answer = controller(&[0, -1, 31, 32, 64, 1 << 20, i32::MIN, i32::MAX]);
        let found = Capabilities::default().with_controller(&answer);
        assert!(found.names().is_empty(), "{found:?}");
        let empty = ControllerGetCapabilitiesResponse {
            capabilities: vec![ControllerServiceCapability::default()],
        };
        assert_eq!(
            Capabilities::default().with_controller(&empty),
            Capabilities::default()
        );
    }
}
