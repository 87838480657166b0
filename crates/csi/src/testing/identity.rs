//! Identity and the group controller.

use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse,
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse,
    GroupControllerServiceCapability, PluginCapability, ProbeRequest, ProbeResponse,
    group_controller_server::GroupController,
    group_controller_service_capability::{self, Rpc, rpc},
    identity_server::Identity,
    plugin_capability::{self, Service, VolumeExpansion, service, volume_expansion},
};
use tonic::{Request, Response, Status};

use super::{Driver, Fault, Shape};

fn service(kind: i32) -> PluginCapability {
    PluginCapability {
        r#type: Some(plugin_capability::Type::Service(Service { r#type: kind })),
    }
}

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        if self.has(Fault::Fails("GetPluginInfo")) {
            return Err(Status::internal("broken on purpose"));
        }
        let name = match self.fault {
            Some(Fault::NameMissing) => String::new(),
            Some(Fault::NameTooLong) => "a".repeat(64),
            Some(Fault::NameOfOtherCharacters) => "memory_csi".to_owned(),
            _ => "memory.csi.test".to_owned(),
        };
        Ok(Response::new(GetPluginInfoResponse {
            name,
            vendor_version: "v1".to_owned(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        if self.has(Fault::Fails("GetPluginCapabilities")) {
            return Err(Status::internal("broken on purpose"));
        }
        let expansion = match self.shape {
            Shape::Offline => volume_expansion::Type::Offline,
            Shape::Full | Shape::NodeOnly => volume_expansion::Type::Online,
        };
        let expansion = VolumeExpansion {
            r#type: expansion.into(),
        };
        let mut capabilities = vec![
            service(service::Type::ControllerService.into()),
            service(service::Type::VolumeAccessibilityConstraints.into()),
            service(service::Type::GroupControllerService.into()),
            PluginCapability {
                r#type: Some(plugin_capability::Type::VolumeExpansion(expansion)),
            },
        ];
        if self.shape == Shape::NodeOnly {
            capabilities.clear();
        }
        if self.has(Fault::UnknownPluginCapability) {
            capabilities.push(service(99));
        }
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities,
        }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        if self.has(Fault::Fails("Probe")) {
            return Err(Status::internal("broken on purpose"));
        }
        let ready = !self.has(Fault::NeverReady);
        Ok(Response::new(ProbeResponse { ready: Some(ready) }))
    }
}

#[tonic::async_trait]
impl GroupController for Driver {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<GroupControllerGetCapabilitiesResponse>, Status> {
        let mut kinds = vec![rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into()];
        if self.has(Fault::UnknownGroupCapability) {
            kinds.push(99);
        }
        if self.has(Fault::NoGroupCapability) {
            kinds.clear();
        }
        let capability = |kind| GroupControllerServiceCapability {
            r#type: Some(group_controller_service_capability::Type::Rpc(Rpc {
                r#type: kind,
            })),
        };
        Ok(Response::new(GroupControllerGetCapabilitiesResponse {
            capabilities: kinds.into_iter().map(capability).collect(),
        }))
    }

    /// No case makes a group: only requests that must be refused come here.
    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<CreateVolumeGroupSnapshotResponse>, Status> {
        self.answer("CreateVolumeGroupSnapshot", request, |_, _| {
            Err(Status::failed_precondition("no groups in this driver"))
        })
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<DeleteVolumeGroupSnapshotResponse>, Status> {
        self.answer("DeleteVolumeGroupSnapshot", request, |_, _| {
            Ok(DeleteVolumeGroupSnapshotResponse {})
        })
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<GetVolumeGroupSnapshotResponse>, Status> {
        self.answer("GetVolumeGroupSnapshot", request, |_, request| {
            let id = &request.group_snapshot_id;
            Err(Status::not_found(format!("there is no group `{id}`")))
        })
    }
}
