//! Which services the driver has.

use std::sync::Arc;

use stowage_csi::identity::IdentityService;
use stowage_csi::proto::csi::controller_server::ControllerServer;
use stowage_csi::proto::csi::group_controller_server::GroupControllerServer;
use stowage_csi::proto::csi::identity_server::IdentityServer;
use stowage_csi::proto::csi::node_server::NodeServer;
use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
use stowage_csi::proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use tonic::service::Routes;

use crate::driver::Driver;
use crate::driver::controller::ControllerService;
use crate::driver::group::GroupService;
use crate::driver::node::NodeService;

/// The services of the driver's mode.
pub(super) fn routes(driver: &Arc<Driver>) -> Routes {
    let serving = &driver.config.serving;
    let mode = serving.mode;
    let mut routes = Routes::new(IdentityServer::new(IdentityService {
        name: serving.driver_name.clone(),
        capabilities: vec![
            Service::ControllerService.into(),
            Service::VolumeAccessibilityConstraints.into(),
            Expansion::Online.into(),
        ],
    }));
    if mode.has_controller() {
        routes = routes
            .add_service(ControllerServer::new(ControllerService(driver.clone())))
            .add_service(GroupControllerServer::new(GroupService));
    }
    if mode.has_node() {
        routes = routes.add_service(NodeServer::new(NodeService(driver.clone())));
    }
    routes
}
