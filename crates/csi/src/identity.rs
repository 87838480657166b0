//! The Identity service of a driver that is well as long as its process is.

use tonic::{Request, Response, Status};

use crate::proto::csi::identity_server::Identity;
use crate::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};

/// Who the driver is.
#[derive(Clone, Debug)]
pub struct IdentityService {
    /// Its name.
    pub name: String,
    /// What it can do: the same from every instance, whatever its mode, as the specification wants it.
    pub capabilities: Vec<PluginCapability>,
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

    /// Called twice: the same answer.
    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: self.capabilities.clone(),
        }))
    }

    /// Answers for the process: an array or a client of the node that is down is not helped by a restart of this pod. It
    /// shows in conditions, labels and Events, and in every call that needs it.
    ///
    /// Called twice: the same answer.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
