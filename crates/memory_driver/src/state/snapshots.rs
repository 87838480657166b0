//! Taking, listing and removing snapshots.

use std::time::SystemTime;

use stowage_csi::proto::csi::{CreateSnapshotRequest, ListSnapshotsRequest, Snapshot};
use tonic::Status;

use super::{Change, KeptSnapshot, State, missing, page};
use crate::fault::{Fault, Faults};

impl State {
    /// Called twice with the same name: the same snapshot, or `ALREADY_EXISTS` if it is of another volume.
    pub(crate) fn create_snapshot(
        &mut self,
        request: CreateSnapshotRequest,
        faults: &Faults,
    ) -> Result<Snapshot, Status> {
        let known = self.snapshot_names.get(&request.name);
        let known = known.and_then(|id| self.snapshots.get(id));
        if let Some(kept) = known.filter(|_| !faults.has(Fault::NewSnapshotEachTime)) {
            let same = kept.snapshot.source_volume_id == request.source_volume_id;
            if !same && !faults.has(Fault::AnySourceForAKnownName) {
                return Err(Status::already_exists(
                    "the name is taken by another source",
                ));
            }
            return Ok(kept.show(faults));
        }
        let size = self.find(&request.source_volume_id)?.size;
        if faults.has(Fault::LongNamesRefused) && request.name.len() > 100 {
            return Err(Status::invalid_argument("the name is too long for us"));
        }
        let kept = KeptSnapshot {
            name: request.name,
            snapshot: Snapshot {
                size_bytes: size,
                snapshot_id: self.new_id("snap"),
                source_volume_id: request.source_volume_id,
                creation_time: Some(SystemTime::now().into()),
                ready_to_use: true,
                ..Default::default()
            },
            parameters: request.parameters,
        };
        let snapshot = kept.show(faults);
        self.change(Change::Snapshot(kept))?;
        Ok(snapshot)
    }

    /// Called twice: the second call finds nothing, which is success.
    pub(crate) fn delete_snapshot(&mut self, id: &str, faults: &Faults) -> Result<(), Status> {
        if let Some(kept) = self.snapshots.get(id) {
            if !kept.snapshot.group_snapshot_id.is_empty() {
                return Err(Status::invalid_argument("it goes with its group"));
            }
            return self.change(Change::SnapshotGone(id.to_owned()));
        }
        if faults.has(Fault::MissingSnapshotCannotBeDeleted) {
            return Err(missing("snapshot", id));
        }
        Ok(())
    }

    pub(crate) fn get_snapshot(&self, id: &str, faults: &Faults) -> Result<Snapshot, Status> {
        let found = self.snapshots.get(id);
        let found = found.ok_or_else(|| missing("snapshot", id))?;
        if faults.has(Fault::OtherSnapshotFound) {
            return Ok(Snapshot::default());
        }
        Ok(found.show(faults))
    }

    pub(crate) fn list_snapshots(
        &self,
        request: &ListSnapshotsRequest,
        faults: &Faults,
    ) -> Result<(Vec<Snapshot>, String), Status> {
        let wanted = |snapshot: &Snapshot| {
            let (id, source) = (&request.snapshot_id, &request.source_volume_id);
            let matches = (id.is_empty() || *id == snapshot.snapshot_id)
                && (source.is_empty() || *source == snapshot.source_volume_id);
            matches || faults.has(Fault::SnapshotFilterIgnored)
        };
        let all = self.snapshots.values().map(|kept| kept.show(faults));
        let mut all: Vec<_> = all.filter(wanted).collect();
        if faults.has(Fault::NewSnapshotsNotListed) {
            all.clear();
        }
        if faults.has(Fault::DeletedSnapshotsListed) {
            let gone = self.deleted_snapshots.iter();
            all.extend(gone.map(|kept| kept.snapshot.clone()));
        }
        let token = if faults.has(Fault::TokenIgnored) {
            ""
        } else {
            &request.starting_token
        };
        let max_entries = if faults.has(Fault::PagesTooLong) {
            0
        } else {
            request.max_entries
        };
        let (entries, next) = page(all, token, max_entries)?;
        let is_last = faults.has(Fault::NoNextToken);
        Ok((entries, if is_last { String::new() } else { next }))
    }
}

impl KeptSnapshot {
    pub(super) fn show(&self, faults: &Faults) -> Snapshot {
        let mut snapshot = self.snapshot.clone();
        if faults.has(Fault::SnapshotWithoutTime) {
            snapshot.creation_time = None;
        }
        if faults.has(Fault::NeverReadyToUse) {
            snapshot.ready_to_use = false;
        }
        snapshot
    }
}
