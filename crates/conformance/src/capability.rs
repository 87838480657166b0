//! What a driver says it can do, and what a case needs of that.

use std::fmt;

pub(crate) use stowage_csi::proto::csi::controller_service_capability::rpc::Type as ControllerRpc;
pub(crate) use stowage_csi::proto::csi::group_controller_service_capability::rpc::Type as GroupRpc;
pub(crate) use stowage_csi::proto::csi::node_service_capability::rpc::Type as NodeRpc;
pub(crate) use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
pub(crate) use stowage_csi::proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use stowage_csi::proto::csi::{
    ControllerServiceCapability, GroupControllerServiceCapability, NodeGetInfoResponse,
    NodeServiceCapability, PluginCapability, controller_service_capability,
    group_controller_service_capability, node_service_capability, plugin_capability,
};

use crate::check::Failure;

/// Something a driver may have or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Plugin(Service),
    Controller(ControllerRpc),
    Group(GroupRpc),
    Node(NodeRpc),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Plugin(service) => ("plugin", service.as_str_name()),
            Self::Controller(rpc) => ("controller", rpc.as_str_name()),
            Self::Group(rpc) => ("group controller", rpc.as_str_name()),
            Self::Node(rpc) => ("node", rpc.as_str_name()),
        };
        write!(f, "the {kind} capability {name}")
    }
}

/// An answer of the driver, or why there is none.
pub(crate) type Known<T> = Result<T, Failure>;

/// What a driver said about itself, asked once before the cases run. An answer that did not come is kept as a
/// failure: a case that depends on it fails and is not skipped, or a sick driver would look like a small one.
pub(crate) struct Facts {
    pub(crate) plugin: Known<Vec<PluginCapability>>,
    pub(crate) controller: Known<Vec<ControllerServiceCapability>>,
    pub(crate) group: Known<Vec<GroupControllerServiceCapability>>,
    pub(crate) node: Known<Vec<NodeServiceCapability>>,
    pub(crate) node_info: Known<NodeGetInfoResponse>,
}

impl Facts {
    /// Does the driver have it?
    pub(crate) fn has(&self, need: Need) -> Known<bool> {
        Ok(match need {
            Need::Plugin(service) => known(&self.plugin)?
                .iter()
                .any(|capability| service_of(*capability) == Some(service as i32)),
            Need::Controller(rpc) => known(&self.controller)?
                .iter()
                .any(|capability| controller_rpc_of(*capability) == Some(rpc as i32)),
            Need::Group(rpc) => known(&self.group)?
                .iter()
                .any(|capability| group_rpc_of(*capability) == Some(rpc as i32)),
            Need::Node(rpc) => known(&self.node)?
                .iter()
                .any(|capability| node_rpc_of(*capability) == Some(rpc as i32)),
        })
    }

    /// Can volumes only grow while no node uses them?
    pub(crate) fn expands_offline_only(&self) -> Known<bool> {
        let kinds: Vec<_> = known(&self.plugin)?
            .iter()
            .copied()
            .filter_map(expansion_of)
            .collect();
        Ok(kinds.contains(&(Expansion::Offline as i32))
            && !kinds.contains(&(Expansion::Online as i32)))
    }

    pub(crate) fn node_info(&self) -> Known<&NodeGetInfoResponse> {
        known(&self.node_info)
    }
}

fn known<T>(fact: &Known<T>) -> Known<&T> {
    fact.as_ref().map_err(Clone::clone)
}

pub(crate) fn service_of(capability: PluginCapability) -> Option<i32> {
    match capability.r#type? {
        plugin_capability::Type::Service(service) => Some(service.r#type),
        plugin_capability::Type::VolumeExpansion(_) => None,
    }
}

pub(crate) fn expansion_of(capability: PluginCapability) -> Option<i32> {
    match capability.r#type? {
        plugin_capability::Type::VolumeExpansion(expansion) => Some(expansion.r#type),
        plugin_capability::Type::Service(_) => None,
    }
}

pub(crate) fn controller_rpc_of(capability: ControllerServiceCapability) -> Option<i32> {
    let controller_service_capability::Type::Rpc(rpc) = capability.r#type?;
    Some(rpc.r#type)
}

pub(crate) fn group_rpc_of(capability: GroupControllerServiceCapability) -> Option<i32> {
    let group_controller_service_capability::Type::Rpc(rpc) = capability.r#type?;
    Some(rpc.r#type)
}

pub(crate) fn node_rpc_of(capability: NodeServiceCapability) -> Option<i32> {
    let node_service_capability::Type::Rpc(rpc) = capability.r#type?;
    Some(rpc.r#type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> Facts {
        let failure = || Failure::new("GetPluginCapabilities", "OK", "INTERNAL");
        Facts {
            plugin: Err(failure()),
            controller: Ok(vec![]),
            group: Ok(vec![]),
            node: Ok(vec![]),
            node_info: Err(failure()),
        }
    }

    #[test]
    fn a_capability_that_is_not_listed_is_absent() {
        let need = Need::Controller(ControllerRpc::GetCapacity);
        assert_eq!(silent().has(need), Ok(false));
        assert_eq!(need.to_string(), "the controller capability GET_CAPACITY");
    }

    #[test]
    fn an_answer_that_did_not_come_is_neither_yes_nor_no() {
        assert!(
            silent()
                .has(Need::Plugin(Service::ControllerService))
                .is_err()
        );
        assert!(silent().expands_offline_only().is_err());
    }
}
