//! Removes what a case made.

use std::time::Duration;

use stowage_api::backoff::Backoff;
use stowage_csi::proto::csi::{
    ControllerUnpublishVolumeRequest, DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use tokio::time::sleep;
use tonic::Code;

use super::Scene;
use super::ledger::Made;
use crate::check::{Answer, Failure};

/// A driver answers ABORTED while an earlier call still works on the volume, for instance one that took too long.
const ATTEMPTS: u32 = 6;
const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(2),
};

impl Scene {
    /// Removes everything, last first. A driver that does not let go of what it said it has made fails the case.
    pub(super) async fn undo_all(&mut self) -> Vec<Failure> {
        let mut failures = Vec::new();
        while let Some(entry) = self.ledger.pop() {
            let mut outcome = self.undo(entry.made.clone()).await;
            for failures in 1..ATTEMPTS {
                if !matches!(outcome, Err((Code::Aborted, _))) {
                    break;
                }
                sleep(PAUSES.after(failures)).await;
                outcome = self.undo(entry.made.clone()).await;
            }
            if let Err((_, failure)) = outcome
                && entry.certain
            {
                failures.push(failure);
            }
        }
        failures
    }

    async fn undo(&mut self, made: Made) -> Result<(), (Code, Failure)> {
        match made {
            Made::Volume { id } => self.remove_volume(id).await,
            Made::Snapshot { id } => self.remove_snapshot(id).await,
            // The same call again returns the id, and the ledger gets an entry under it. A driver that does not answer
            // this time either is not asked again.
            Made::VolumeWithoutId(request) => {
                self.create_volume(*request.clone()).await;
                self.ledger.forget(&Made::VolumeWithoutId(request));
                Ok(())
            }
            Made::SnapshotWithoutId(request) => {
                self.create_snapshot(*request.clone()).await;
                self.ledger.forget(&Made::SnapshotWithoutId(request));
                Ok(())
            }
            Made::GroupSnapshot { id, members } => {
                let request = DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: id,
                    snapshot_ids: members,
                    ..Default::default()
                };
                done(self.delete_group_snapshot(request).await, false)
            }
            Made::Attached { volume_id, node_id } => {
                let request = ControllerUnpublishVolumeRequest {
                    volume_id,
                    node_id,
                    ..Default::default()
                };
                done(self.controller_unpublish(request).await, false)
            }
            Made::Staged { volume_id, path } => {
                let request = NodeUnstageVolumeRequest {
                    volume_id,
                    staging_target_path: path,
                };
                done(self.node_unstage(request).await, true)
            }
            Made::Published { volume_id, path } => {
                let request = NodeUnpublishVolumeRequest {
                    volume_id,
                    target_path: path,
                };
                done(self.node_unpublish(request).await, true)
            }
        }
    }

    async fn remove_volume(&mut self, volume_id: String) -> Result<(), (Code, Failure)> {
        let request = DeleteVolumeRequest {
            volume_id,
            ..Default::default()
        };
        done(self.delete_volume(request).await, false)
    }

    async fn remove_snapshot(&mut self, snapshot_id: String) -> Result<(), (Code, Failure)> {
        let request = DeleteSnapshotRequest {
            snapshot_id,
            ..Default::default()
        };
        done(self.delete_snapshot(request).await, false)
    }
}

/// The node's calls may say that there is nothing; the specification gives them that code.
fn done<T>(answer: Answer<T>, may_be_missing: bool) -> Result<(), (Code, Failure)> {
    let code = match answer.result() {
        Ok(_) => return Ok(()),
        Err(status) if may_be_missing && status.code() == Code::NotFound => return Ok(()),
        Err(status) => status.code(),
    };
    match answer.when("to clean up after the case").known() {
        Ok(_) => Ok(()),
        Err(failure) => Err((code, failure)),
    }
}
