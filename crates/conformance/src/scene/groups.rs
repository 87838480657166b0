//! Calls of the group controller.

use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse,
    GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
};

use super::Scene;
use super::ledger::Made;
use crate::check::{Answer, ask};
use crate::secrets::SecretKind;

impl Scene {
    pub(crate) async fn create_group_snapshot(
        &mut self,
        mut request: CreateVolumeGroupSnapshotRequest,
    ) -> Answer<CreateVolumeGroupSnapshotResponse> {
        request.secrets = self.options().secrets.of(SecretKind::CreateGroupSnapshot);
        let answer = ask(
            "CreateVolumeGroupSnapshot",
            self.driver().group().create_volume_group_snapshot(request),
        )
        .await;
        if let Ok(CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(group),
        }) = answer.result()
        {
            let members = group.snapshots.iter();
            let made = Made::GroupSnapshot {
                id: group.group_snapshot_id.clone(),
                members: members.map(|member| member.snapshot_id.clone()).collect(),
            };
            let begun = self.ledger.begin(made);
            self.ledger.settle(begun, answer.result());
        }
        answer
    }

    pub(crate) async fn delete_group_snapshot(
        &mut self,
        mut request: DeleteVolumeGroupSnapshotRequest,
    ) -> Answer<DeleteVolumeGroupSnapshotResponse> {
        request.secrets = self.options().secrets.of(SecretKind::DeleteGroupSnapshot);
        let id = request.group_snapshot_id.clone();
        let answer = ask(
            "DeleteVolumeGroupSnapshot",
            self.driver().group().delete_volume_group_snapshot(request),
        )
        .await;
        if answer.result().is_ok() {
            self.ledger.forget_group(&id);
        }
        answer
    }

    pub(crate) async fn get_group_snapshot(
        &self,
        mut request: GetVolumeGroupSnapshotRequest,
    ) -> Answer<GetVolumeGroupSnapshotResponse> {
        request.secrets = self.options().secrets.of(SecretKind::GetGroupSnapshot);
        ask(
            "GetVolumeGroupSnapshot",
            self.driver().group().get_volume_group_snapshot(request),
        )
        .await
    }
}
