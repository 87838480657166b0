//! Identity and the group controller.

use stowage_csi::proto::csi::group_controller_server::GroupController;
use stowage_csi::proto::csi::group_controller_service_capability::{self, Rpc, rpc};
use stowage_csi::proto::csi::identity_server::Identity;
use stowage_csi::proto::csi::plugin_capability::{
    self, Service, VolumeExpansion, service, volume_expansion,
};
use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse,
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse,
    GroupControllerServiceCapability, PluginCapability, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

use super::{Expansion, Fault, MemoryDriver, Profile};

type Answer<T> = Result<Response<T>, Status>;

fn service(kind: i32) -> PluginCapability {
    PluginCapability {
        r#type: Some(plugin_capability::Type::Service(Service { r#type: kind })),
    }
}

#[tonic::async_trait]
impl Identity for MemoryDriver {
    async fn get_plugin_info(
        &self,
        request: Request<GetPluginInfoRequest>,
    ) -> Answer<GetPluginInfoResponse> {
        self.call("GetPluginInfo", request, |_| {
            let name = match self.faults() {
                faults if faults.has(Fault::NameMissing) => String::new(),
                faults if faults.has(Fault::NameTooLong) => "a".repeat(64),
                faults if faults.has(Fault::NameOfOtherCharacters) => "memory_csi".to_owned(),
                faults if faults.has(Fault::NameChanged) => "another.csi.test".to_owned(),
                _ => self.profile().name.clone(),
            };
            Ok(GetPluginInfoResponse {
                name,
                vendor_version: "v1".to_owned(),
                ..Default::default()
            })
        })
        .await
    }

    async fn get_plugin_capabilities(
        &self,
        request: Request<GetPluginCapabilitiesRequest>,
    ) -> Answer<GetPluginCapabilitiesResponse> {
        self.call("GetPluginCapabilities", request, |_| {
            let mut capabilities = self.profile().plugin_capabilities();
            if self.has(Fault::UnknownPluginCapability) {
                capabilities.push(service(99));
            }
            Ok(GetPluginCapabilitiesResponse { capabilities })
        })
        .await
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Answer<ProbeResponse> {
        self.call("Probe", request, |_| {
            let ready = !self.has(Fault::NeverReady);
            Ok(ProbeResponse { ready: Some(ready) })
        })
        .await
    }
}

impl Profile {
    fn plugin_capabilities(&self) -> Vec<PluginCapability> {
        let expansion = match self.expansion {
            Expansion::No => None,
            Expansion::Online => Some(volume_expansion::Type::Online),
            Expansion::Offline => Some(volume_expansion::Type::Offline),
        };
        let services = [
            (
                !self.controller.is_empty(),
                service::Type::ControllerService,
            ),
            (self.topology, service::Type::VolumeAccessibilityConstraints),
            (self.groups, service::Type::GroupControllerService),
        ];
        let services = services.into_iter().filter(|(has, _)| *has);
        let services = services.map(|(_, kind)| service(kind.into()));
        let expansion = expansion.map(|kind| PluginCapability {
            r#type: Some(plugin_capability::Type::VolumeExpansion(VolumeExpansion {
                r#type: kind.into(),
            })),
        });
        services.chain(expansion).collect()
    }
}

#[tonic::async_trait]
impl GroupController for MemoryDriver {
    async fn group_controller_get_capabilities(
        &self,
        request: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Answer<GroupControllerGetCapabilitiesResponse> {
        self.call("GroupControllerGetCapabilities", request, |_| {
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
            Ok(GroupControllerGetCapabilitiesResponse {
                capabilities: kinds.into_iter().map(capability).collect(),
            })
        })
        .await
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Answer<CreateVolumeGroupSnapshotResponse> {
        let key = request.get_ref().name.clone();
        self.answer_alone(
            "CreateVolumeGroupSnapshot",
            key,
            request,
            |state, request| {
                let group = state.create_group(request, &self.faults())?;
                Ok(CreateVolumeGroupSnapshotResponse {
                    group_snapshot: Some(group),
                })
            },
        )
        .await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Answer<DeleteVolumeGroupSnapshotResponse> {
        let key = request.get_ref().group_snapshot_id.clone();
        self.answer_alone(
            "DeleteVolumeGroupSnapshot",
            key,
            request,
            |state, request| {
                state.delete_group(&request.group_snapshot_id, &request.snapshot_ids)?;
                Ok(DeleteVolumeGroupSnapshotResponse {})
            },
        )
        .await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Answer<GetVolumeGroupSnapshotResponse> {
        self.answer("GetVolumeGroupSnapshot", request, |state, request| {
            let (id, members) = (&request.group_snapshot_id, &request.snapshot_ids);
            let group = state.get_group(id, members, &self.faults())?;
            Ok(GetVolumeGroupSnapshotResponse {
                group_snapshot: Some(group),
            })
        })
        .await
    }
}
