//! Calls of the controller about snapshots.

use std::time::Duration;

use stowage_csi::proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
};
use tokio::time::{Instant, sleep};

use super::Scene;
use super::ledger::Made;
use super::volumes::new_token;
use crate::check::{Answer, Checked, Failure, ask, ensure, filled};
use crate::secrets::SecretKind;

/// Between two questions whether a snapshot is ready.
const PAUSE: Duration = Duration::from_millis(200);

impl Scene {
    /// A request that a driver must accept.
    pub(crate) fn snapshot_request(&mut self, volume_id: &str) -> CreateSnapshotRequest {
        CreateSnapshotRequest {
            source_volume_id: volume_id.to_owned(),
            name: self.new_name(),
            parameters: self.options().snapshot_parameters.clone(),
            ..Default::default()
        }
    }

    /// A new snapshot of a volume.
    pub(crate) async fn snapshot(&mut self, volume_id: &str) -> Checked<Snapshot> {
        let request = self.snapshot_request(volume_id);
        self.create_snapshot(request).await.snapshot()
    }

    /// A new snapshot of a new volume.
    pub(crate) async fn volume_and_snapshot(&mut self) -> Checked<Snapshot> {
        let volume = self.volume().await?;
        self.snapshot(&volume.volume_id).await
    }

    /// A new snapshot that a volume can be made of. The same call again shows whether it is ready.
    pub(crate) async fn ready_snapshot(&mut self, volume_id: &str) -> Checked<Snapshot> {
        let request = self.snapshot_request(volume_id);
        let limit = self.options().call_timeout;
        let give_up = Instant::now() + limit;
        loop {
            let snapshot = self.create_snapshot(request.clone()).await.snapshot()?;
            if snapshot.ready_to_use {
                return Ok(snapshot);
            }
            ensure(
                Instant::now() < give_up,
                "ready_to_use of a snapshot",
                format!("true within {limit:?}"),
                "false",
            )?;
            sleep(PAUSE).await;
        }
    }

    pub(crate) async fn create_snapshot(
        &mut self,
        mut request: CreateSnapshotRequest,
    ) -> Answer<CreateSnapshotResponse> {
        request.secrets = self.options().secrets.of(SecretKind::CreateSnapshot);
        let begun = self
            .ledger
            .begin(Made::SnapshotWithoutId(Box::new(request.clone())));
        let answer = ask(
            "CreateSnapshot",
            self.driver().controller().create_snapshot(request),
        )
        .await;
        match answer.result() {
            Ok(CreateSnapshotResponse {
                snapshot: Some(snapshot),
            }) if !snapshot.snapshot_id.is_empty() => {
                let id = snapshot.snapshot_id.clone();
                self.ledger.replace(begun, Made::Snapshot { id });
            }
            other => self.ledger.settle(begun, other),
        }
        answer
    }

    pub(crate) async fn delete_snapshot(
        &mut self,
        mut request: DeleteSnapshotRequest,
    ) -> Answer<DeleteSnapshotResponse> {
        request.secrets = self.options().secrets.of(SecretKind::DeleteSnapshot);
        let id = request.snapshot_id.clone();
        let answer = ask(
            "DeleteSnapshot",
            self.driver().controller().delete_snapshot(request),
        )
        .await;
        if answer.result().is_ok() {
            self.ledger.forget(&Made::Snapshot { id });
        }
        answer
    }

    pub(crate) async fn get_snapshot(&self, snapshot_id: &str) -> Answer<GetSnapshotResponse> {
        let request = GetSnapshotRequest {
            snapshot_id: snapshot_id.to_owned(),
            secrets: self.options().secrets.of(SecretKind::GetSnapshot),
        };
        ask(
            "GetSnapshot",
            self.driver().controller().get_snapshot(request),
        )
        .await
    }

    pub(crate) async fn list_snapshots(
        &self,
        mut request: ListSnapshotsRequest,
    ) -> Answer<ListSnapshotsResponse> {
        request.secrets = self.options().secrets.of(SecretKind::ListSnapshots);
        ask(
            "ListSnapshots",
            self.driver().controller().list_snapshots(request),
        )
        .await
    }

    /// The ids of all snapshots that a request asks for, however many pages they are on.
    pub(crate) async fn all_snapshots(
        &self,
        request: ListSnapshotsRequest,
    ) -> Checked<Vec<String>> {
        let mut ids = Vec::new();
        let mut tokens = Vec::new();
        let mut request = request;
        loop {
            let page = self.list_snapshots(request.clone()).await.ok()?;
            ids.extend(snapshot_ids(&page)?);
            if page.next_token.is_empty() {
                return Ok(ids);
            }
            new_token("ListSnapshots", &mut tokens, page.next_token.clone())?;
            request.starting_token = page.next_token;
        }
    }
}

/// The ids on a page, each of which must be there.
pub(crate) fn snapshot_ids(page: &ListSnapshotsResponse) -> Checked<Vec<String>> {
    let entries = page.entries.iter();
    entries
        .map(|entry| {
            let snapshot = entry.snapshot.clone().unwrap_or_default();
            complete("every entry of ListSnapshots", &snapshot)?;
            Ok(snapshot.snapshot_id)
        })
        .collect()
}

/// What every snapshot must say about itself.
fn complete(check: &str, snapshot: &Snapshot) -> Checked {
    filled(check, "snapshot_id", &snapshot.snapshot_id)?;
    filled(check, "source_volume_id", &snapshot.source_volume_id)?;
    ensure(
        snapshot.creation_time.is_some(),
        check,
        "a creation_time",
        "none",
    )
}

impl Answer<CreateSnapshotResponse> {
    /// The snapshot that was made.
    pub(crate) fn snapshot(self) -> Checked<Snapshot> {
        let call = self.call().to_owned();
        let Some(snapshot) = self.ok()?.snapshot else {
            return Err(Failure::new(call, "a snapshot", "an answer without one").into());
        };
        complete(&call, &snapshot)?;
        Ok(snapshot)
    }
}
