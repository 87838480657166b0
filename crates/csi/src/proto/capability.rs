//! What a driver can do, as its services announce it.

use super::csi::{
    ControllerServiceCapability, GroupControllerServiceCapability, NodeServiceCapability,
    controller_service_capability as controller, group_controller_service_capability as group,
    node_service_capability as node,
};

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
