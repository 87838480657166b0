//! The Identity service.

use stowage_csi::proto::csi::identity_server::Identity;
use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
use stowage_csi::proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use stowage_csi::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

/// Who the driver is.
pub struct IdentityService {
    /// Its name.
    pub name: String,
    /// Nodes say where they are, and volumes from where they are reached.
    pub has_topology: bool,
}

#[tonic::async_trait]
impl Identity for IdentityService {
    /// Called twice: the same answer.
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..GetPluginInfoResponse::default()
        }))
    }

    /// The same from every instance, whatever its mode, as the specification wants it.
    ///
    /// Called twice: the same answer.
    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let mut capabilities = vec![Service::ControllerService.into(), Expansion::Online.into()];
        if self.has_topology {
            capabilities.push(Service::VolumeAccessibilityConstraints.into());
        }
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities,
        }))
    }

    /// Answers for the process: an array that is sick is not helped by a restart of this pod. It shows in the status of its
    /// VPSA, in Events, and in every call that needs it.
    ///
    /// Called twice: the same answer.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
