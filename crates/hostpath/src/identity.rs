//! Who the driver is.

use std::sync::Arc;

use stowage_csi::proto::csi::identity_server::Identity;
use stowage_csi::proto::csi::plugin_capability::service::Type as Service;
use stowage_csi::proto::csi::plugin_capability::volume_expansion::Type as Expansion;
use stowage_csi::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use stowage_host::blocking;
use tonic::{Request, Response, Status};

use crate::driver::Driver;

pub(crate) struct IdentityService(pub(crate) Arc<Driver>);

#[tonic::async_trait]
impl Identity for IdentityService {
    /// Called twice: the same answer.
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.0.config.serving.driver_name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: [(
                "stateDirectory".to_owned(),
                self.0.store.root().display().to_string(),
            )]
            .into(),
        }))
    }

    /// The same from every instance, whatever its mode, as the specification wants it.
    ///
    /// Called twice: the same answer.
    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let mut capabilities = vec![
            Service::ControllerService.into(),
            Service::GroupControllerService.into(),
            Expansion::Online.into(),
        ];
        if self.0.config.topology {
            capabilities.push(Service::VolumeAccessibilityConstraints.into());
        }
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities,
        }))
    }

    /// Well as long as the state directory is there.
    ///
    /// Called twice: the same answer.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let root = self.0.store.root().to_owned();
        let asked = root.clone();
        match blocking(move || std::fs::metadata(asked)).await {
            Ok(_) => Ok(Response::new(ProbeResponse { ready: Some(true) })),
            Err(error) => Err(Status::failed_precondition(format!(
                "the state directory `{}`: {error}",
                root.display()
            ))),
        }
    }
}
