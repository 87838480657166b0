//! Makes and deletes volumes.

use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume,
};
use stowage_csi::sizes::{Range, signed};
use tonic::{Request, Response, Status};

use super::volumes::refusal;
use super::{Driver, RULES};

/// The size of volumes for which nobody asked for one.
const USUAL_BYTES: u64 = 1 << 30;

#[tonic::async_trait]
impl Controller for Driver {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(RULES.controller.into()))
    }

    /// Called twice: the same volume.
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        if let Some(refusal) = request.volume_capabilities.iter().find_map(refusal) {
            return Err(Status::invalid_argument(refusal));
        }
        let range = Range::from(request.capacity_range.as_ref());
        let wanted = match range.required {
            0 => USUAL_BYTES.min(range.limit),
            bytes => bytes,
        };
        let bytes = self.volumes.create(&request.name, wanted)?;
        if !range.contains(bytes) {
            let text = format!("volume `{}` has {bytes} bytes", request.name);
            return Err(Status::already_exists(text));
        }
        Ok(Response::new(CreateVolumeResponse {
            volume: Some(Volume {
                capacity_bytes: signed(bytes),
                volume_id: request.name,
                ..Volume::default()
            }),
        }))
    }

    /// Called twice: what is gone stays gone.
    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let request = RULES.checked(request)?;
        self.volumes.delete(&request.volume_id)?;
        Ok(Response::new(DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = RULES.checked(request)?;
        self.volumes.find(&request.volume_id)?;
        let refusal = request.volume_capabilities.iter().find_map(refusal);
        Ok(Response::new(request.answered(refusal)))
    }
}
