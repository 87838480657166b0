//! What a driver and its volumes can do, as its services announce it.

use super::csi::validate_volume_capabilities_response::Confirmed;
use super::csi::{
    ControllerGetCapabilitiesResponse, ControllerServiceCapability,
    GroupControllerServiceCapability, NodeGetCapabilitiesResponse, NodeServiceCapability,
    PluginCapability, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    controller_service_capability as controller, group_controller_service_capability as group,
    node_service_capability as node, plugin_capability as plugin,
};

impl From<plugin::service::Type> for PluginCapability {
    fn from(service: plugin::service::Type) -> Self {
        let r#type = service.into();
        Self {
            r#type: Some(plugin::Type::Service(plugin::Service { r#type })),
        }
    }
}

impl From<plugin::volume_expansion::Type> for PluginCapability {
    fn from(expansion: plugin::volume_expansion::Type) -> Self {
        let r#type = expansion.into();
        let expansion = plugin::VolumeExpansion { r#type };
        Self {
            r#type: Some(plugin::Type::VolumeExpansion(expansion)),
        }
    }
}

impl From<controller::rpc::Type> for ControllerServiceCapability {
    fn from(rpc: controller::rpc::Type) -> Self {
        let r#type = rpc.into();
        Self {
            r#type: Some(controller::Type::Rpc(controller::Rpc { r#type })),
        }
    }
}

impl From<node::rpc::Type> for NodeServiceCapability {
    fn from(rpc: node::rpc::Type) -> Self {
        let r#type = rpc.into();
        Self {
            r#type: Some(node::Type::Rpc(node::Rpc { r#type })),
        }
    }
}

impl From<group::rpc::Type> for GroupControllerServiceCapability {
    fn from(rpc: group::rpc::Type) -> Self {
        let r#type = rpc.into();
        Self {
            r#type: Some(group::Type::Rpc(group::Rpc { r#type })),
        }
    }
}

impl From<&[controller::rpc::Type]> for ControllerGetCapabilitiesResponse {
    fn from(rpcs: &[controller::rpc::Type]) -> Self {
        Self {
            capabilities: rpcs.iter().copied().map(Into::into).collect(),
        }
    }
}

impl From<&[node::rpc::Type]> for NodeGetCapabilitiesResponse {
    fn from(rpcs: &[node::rpc::Type]) -> Self {
        Self {
            capabilities: rpcs.iter().copied().map(Into::into).collect(),
        }
    }
}

impl ValidateVolumeCapabilitiesRequest {
    /// The answer that the volume can be used like this, or that it cannot, and why.
    pub fn answered(self, refusal: Option<String>) -> ValidateVolumeCapabilitiesResponse {
        let confirmed = refusal.is_none().then_some(Confirmed {
            volume_context: self.volume_context,
            volume_capabilities: self.volume_capabilities,
            parameters: self.parameters,
            mutable_parameters: self.mutable_parameters,
        });
        ValidateVolumeCapabilitiesResponse {
            confirmed,
            message: refusal.unwrap_or_default(),
        }
    }
}
