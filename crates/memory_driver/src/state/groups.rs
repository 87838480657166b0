//! Snapshots of several volumes at one moment.

use std::collections::BTreeSet;
use std::time::SystemTime;

use stowage_csi::proto::csi::{CreateVolumeGroupSnapshotRequest, Snapshot, VolumeGroupSnapshot};
use tonic::Status;

use super::{Change, KeptGroup, KeptSnapshot, State, missing};
use crate::fault::{Fault, Faults};

impl State {
    /// Called twice with the same name: the same group, or `ALREADY_EXISTS` if it is of other volumes.
    pub(crate) fn create_group(
        &mut self,
        request: CreateVolumeGroupSnapshotRequest,
        faults: &Faults,
    ) -> Result<VolumeGroupSnapshot, Status> {
        let mut known = self.groups.values();
        if let Some(group) = known.find(|group| group.name == request.name) {
            let sources = group.members.iter();
            let sources: BTreeSet<_> = sources
                .map(|member| &member.snapshot.source_volume_id)
                .collect();
            if sources != request.source_volume_ids.iter().collect() {
                return Err(Status::already_exists("the name is taken by other volumes"));
            }
            return Ok(group.show(faults));
        }
        let id = self.new_id("group");
        let now = SystemTime::now();
        let mut members = Vec::new();
        for (number, volume) in request.source_volume_ids.iter().enumerate() {
            let snapshot = Snapshot {
                size_bytes: self.find(volume)?.size,
                snapshot_id: format!("{id}-snap-{number}"),
                source_volume_id: volume.clone(),
                creation_time: Some(now.into()),
                ready_to_use: true,
                group_snapshot_id: id.clone(),
            };
            members.push(KeptSnapshot {
                name: format!("{}-{number}", request.name),
                snapshot,
                parameters: request.parameters.clone(),
            });
        }
        let name = request.name;
        let group = KeptGroup { id, name, members };
        let shown = group.show(faults);
        self.change(Change::Group(group))?;
        Ok(shown)
    }

    /// Called twice: the second call finds nothing, which is success.
    pub(crate) fn delete_group(&mut self, id: &str, members: &[String]) -> Result<(), Status> {
        match self.groups.get(id) {
            None => Ok(()),
            Some(group) => {
                group.check_members(members)?;
                self.change(Change::GroupGone(id.to_owned()))
            }
        }
    }

    pub(crate) fn get_group(
        &self,
        id: &str,
        members: &[String],
        faults: &Faults,
    ) -> Result<VolumeGroupSnapshot, Status> {
        let group = self.groups.get(id).ok_or_else(|| missing("group", id))?;
        group.check_members(members)?;
        Ok(group.show(faults))
    }
}

impl KeptGroup {
    fn check_members(&self, asked: &[String]) -> Result<(), Status> {
        let known = self.members.iter();
        let known: BTreeSet<_> = known.map(|member| &member.snapshot.snapshot_id).collect();
        if known == asked.iter().collect() {
            return Ok(());
        }
        Err(Status::invalid_argument("these are not the members"))
    }

    fn show(&self, faults: &Faults) -> VolumeGroupSnapshot {
        let members = self.members.iter();
        let snapshots: Vec<_> = members.map(|member| member.show(faults)).collect();
        VolumeGroupSnapshot {
            group_snapshot_id: self.id.clone(),
            creation_time: snapshots.first().and_then(|first| first.creation_time),
            ready_to_use: !faults.has(Fault::NeverReadyToUse),
            snapshots,
        }
    }
}
