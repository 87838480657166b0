//! Snapshots and clones, which go by consistency group.

use super::super::call::Call;
use super::super::error::ApiError;
use super::super::follow::Outcome;
use super::super::id::{CgId, SnapshotId};
use super::super::wire::Snapshot;
use super::Api;

fn group(id: &CgId) -> String {
    format!("consistency_groups/{id}")
}

impl Api {
    /// All snapshots of the array, with the volumes they were taken of.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, ApiError> {
        self.list(Call::get("snapshots", "list snapshots"), "snapshots")
            .await
    }

    /// The snapshots of a consistency group.
    pub async fn group_snapshots(&self, cg: &CgId) -> Result<Vec<Snapshot>, ApiError> {
        let path = format!("{}/snapshots", group(cg));
        let call = Call::get(path, "list the snapshots of a volume");
        self.list(call, "snapshots").await
    }

    /// One snapshot, if it is there.
    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, ApiError> {
        let call = Call::get(format!("snapshots/{id}"), "look at a snapshot");
        self.maybe(call, "snapshot").await
    }

    /// Takes a snapshot.
    ///
    /// Called twice: refused with [`Refusal::NameTaken`](super::super::Refusal::NameTaken).
    pub async fn create_snapshot(
        &self,
        cg: &CgId,
        name: &str,
    ) -> Result<Outcome<SnapshotId>, ApiError> {
        let call = Call::post(format!("{}/snapshots", group(cg)), "take a snapshot");
        self.change(call.set("display_name", name), "snapshot_name")
            .await
    }

    /// Gives a snapshot another name.
    ///
    /// Called twice: it has that name.
    pub async fn rename_snapshot(
        &self,
        id: &SnapshotId,
        name: &str,
    ) -> Result<Outcome<()>, ApiError> {
        let call = Call::post(format!("snapshots/{id}/rename"), "rename a snapshot");
        self.act(call.set("newname", name)).await
    }

    /// Removes a snapshot.
    ///
    /// Called twice: it is removed.
    pub async fn delete_snapshot(&self, id: &SnapshotId) -> Result<Outcome<()>, ApiError> {
        let call = Call::delete(format!("snapshots/{id}"), "delete a snapshot");
        self.remove(call).await
    }

    /// Copies a volume as it was in a snapshot, or as it is now, to a new one. The array answers with the group of the
    /// new volume, and makes the volume later: look for it by its name, which is also its group's.
    ///
    /// Called twice: refused with [`Refusal::NameTaken`](super::super::Refusal::NameTaken).
    pub async fn clone_volume(
        &self,
        cg: &CgId,
        name: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<Outcome<CgId>, ApiError> {
        let call = Call::post(format!("{}/clone", group(cg)), "clone a volume")
            .set("name", name)
            .maybe("snapshot", snapshot.map(SnapshotId::as_str));
        self.change(call, "cg_name").await
    }
}
