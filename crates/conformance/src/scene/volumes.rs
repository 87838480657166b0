//! Calls of the controller about volumes.

use stowage_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateVolumeRequest, CreateVolumeResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume,
};

use super::ledger::Made;
use super::{Scene, at_least};
use crate::capability::{ControllerRpc, Need};
use crate::check::{Answer, Checked, Failure, ask, ensure, filled};
use crate::secrets::SecretKind;

impl Scene {
    /// A request that a driver must accept. Cases change it to ask for something else.
    pub(crate) fn volume_request(&mut self) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: self.new_name(),
            capacity_range: Some(at_least(self.options().volume_size)),
            volume_capabilities: vec![self.capability()],
            parameters: self.options().volume_parameters.clone(),
            ..Default::default()
        }
    }

    /// A new volume.
    pub(crate) async fn volume(&mut self) -> Checked<Volume> {
        let request = self.volume_request();
        self.create_volume(request).await.volume()
    }

    /// The same, for a volume that this node can use.
    pub(crate) fn volume_request_here(&mut self) -> Checked<CreateVolumeRequest> {
        Ok(CreateVolumeRequest {
            accessibility_requirements: self.on_this_node()?,
            ..self.volume_request()
        })
    }

    /// A new volume that this node can use.
    pub(crate) async fn volume_here(&mut self) -> Checked<Volume> {
        let request = self.volume_request_here()?;
        self.create_volume(request).await.volume()
    }

    /// A volume id for a request in which something else is wrong: that of a real volume if the driver makes any,
    /// so that there is only one thing to complain about.
    pub(crate) async fn some_volume(&mut self) -> Checked<String> {
        if self.has(Need::Controller(ControllerRpc::CreateDeleteVolume))? {
            Ok(self.volume_here().await?.volume_id)
        } else {
            Ok(self.unknown_volume())
        }
    }

    pub(crate) async fn create_volume(
        &mut self,
        mut request: CreateVolumeRequest,
    ) -> Answer<CreateVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::CreateVolume);
        let begun = self
            .ledger
            .begin(Made::VolumeWithoutId(Box::new(request.clone())));
        let answer = ask(
            "CreateVolume",
            self.driver().controller().create_volume(request),
        )
        .await;
        match answer.result() {
            Ok(CreateVolumeResponse {
                volume: Some(volume),
            }) if !volume.volume_id.is_empty() => {
                let id = volume.volume_id.clone();
                self.ledger.replace(begun, Made::Volume { id });
            }
            other => self.ledger.settle(begun, other),
        }
        answer
    }

    pub(crate) async fn delete_volume(
        &mut self,
        mut request: DeleteVolumeRequest,
    ) -> Answer<DeleteVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::DeleteVolume);
        let id = request.volume_id.clone();
        let answer = ask(
            "DeleteVolume",
            self.driver().controller().delete_volume(request),
        )
        .await;
        if answer.result().is_ok() {
            self.ledger.forget(&Made::Volume { id });
        }
        answer
    }

    /// A request to publish a volume on this node.
    pub(crate) fn publish_request(
        &self,
        volume: &Volume,
    ) -> Checked<ControllerPublishVolumeRequest> {
        Ok(ControllerPublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            node_id: self.node_id()?,
            volume_capability: Some(self.capability()),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        })
    }

    pub(crate) async fn controller_publish(
        &mut self,
        mut request: ControllerPublishVolumeRequest,
    ) -> Answer<ControllerPublishVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::ControllerPublish);
        let begun = self.ledger.begin(Made::Attached {
            volume_id: request.volume_id.clone(),
            node_id: request.node_id.clone(),
        });
        let answer = ask(
            "ControllerPublishVolume",
            self.driver()
                .controller()
                .controller_publish_volume(request),
        )
        .await;
        self.ledger.settle(begun, answer.result());
        answer
    }

    pub(crate) async fn controller_unpublish(
        &mut self,
        mut request: ControllerUnpublishVolumeRequest,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::ControllerUnpublish);
        let made = Made::Attached {
            volume_id: request.volume_id.clone(),
            node_id: request.node_id.clone(),
        };
        let answer = ask(
            "ControllerUnpublishVolume",
            self.driver()
                .controller()
                .controller_unpublish_volume(request),
        )
        .await;
        if answer.result().is_ok() {
            self.ledger.forget(&made);
        }
        answer
    }

    pub(crate) async fn validate(
        &self,
        mut request: ValidateVolumeCapabilitiesRequest,
    ) -> Answer<ValidateVolumeCapabilitiesResponse> {
        request.secrets = self.options().secrets.of(SecretKind::Validate);
        ask(
            "ValidateVolumeCapabilities",
            self.driver()
                .controller()
                .validate_volume_capabilities(request),
        )
        .await
    }

    pub(crate) async fn controller_expand(
        &self,
        mut request: ControllerExpandVolumeRequest,
    ) -> Answer<ControllerExpandVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::ControllerExpand);
        ask(
            "ControllerExpandVolume",
            self.driver().controller().controller_expand_volume(request),
        )
        .await
    }

    pub(crate) async fn modify(
        &self,
        mut request: ControllerModifyVolumeRequest,
    ) -> Answer<ControllerModifyVolumeResponse> {
        request.secrets = self.options().secrets.of(SecretKind::Modify);
        ask(
            "ControllerModifyVolume",
            self.driver().controller().controller_modify_volume(request),
        )
        .await
    }

    pub(crate) async fn list_volumes(
        &self,
        request: ListVolumesRequest,
    ) -> Answer<ListVolumesResponse> {
        ask(
            "ListVolumes",
            self.driver().controller().list_volumes(request),
        )
        .await
    }

    /// The ids of all volumes, however many pages they are on.
    pub(crate) async fn all_volumes(&self) -> Checked<Vec<String>> {
        let mut ids = Vec::new();
        let mut tokens = Vec::new();
        loop {
            let request = ListVolumesRequest {
                starting_token: tokens.last().cloned().unwrap_or_default(),
                ..Default::default()
            };
            let page = self.list_volumes(request).await.ok()?;
            for entry in page.entries {
                let id = entry.volume.unwrap_or_default().volume_id;
                filled("every entry of ListVolumes", "volume_id", &id)?;
                ids.push(id);
            }
            if page.next_token.is_empty() {
                return Ok(ids);
            }
            new_token("ListVolumes", &mut tokens, page.next_token)?;
        }
    }
}

/// A token that was given before leads round in a circle.
pub(super) fn new_token(rpc: &str, tokens: &mut Vec<String>, token: String) -> Checked {
    ensure(
        !tokens.contains(&token),
        format!("next_token of {rpc}"),
        "another token on every page, and none on the last",
        format!("`{token}` again"),
    )?;
    tokens.push(token);
    Ok(())
}

impl Answer<CreateVolumeResponse> {
    /// The volume that was made.
    pub(crate) fn volume(self) -> Checked<Volume> {
        let call = self.call().to_owned();
        let Some(volume) = self.ok()?.volume else {
            return Err(Failure::new(call, "a volume", "an answer without one").into());
        };
        filled(&call, "volume_id", &volume.volume_id)?;
        Ok(volume)
    }
}
