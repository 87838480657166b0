//! Snapshots that were taken together: all of them exist, or none does.
//!
//! The group's record holds the records of its members, so one atomic write makes all of them exist. Order of a
//! creation: the members' images, marked as unfinished; the group's record; the members' records. Order of a deletion:
//! the mark in the group's record; the members; the group. A process that dies leaves a group that is not there yet,
//! whose images [`repair`](super::repair) removes, or one whose way is decided, which it goes to the end.

use serde::{Deserialize, Serialize};

use super::{Area, Image, Record, SnapshotRecord, Stage, StateError, Store};
use crate::error::chain;
use crate::id::{Key, Kind};

/// A group of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupRecord {
    pub(crate) id: String,
    /// As the caller of `CreateVolumeGroupSnapshot` called it.
    pub(crate) name: String,
    pub(crate) created_unix_ms: u64,
    pub(crate) stage: GroupStage,
    pub(crate) members: Vec<SnapshotRecord>,
}

/// Which way a group goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GroupStage {
    /// It exists, with all its members.
    Taken,
    /// It is being removed, with all its members.
    Leaving,
}

impl Record for GroupRecord {
    const SHELF: Area = Area::Groups;
    const KIND: Kind = Kind::Group;

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl SnapshotRecord {
    pub(crate) fn key(&self) -> Key {
        Key::of_name(&self.name)
    }
}

impl GroupRecord {
    pub(crate) fn key(&self) -> Key {
        Key::of_name(&self.name)
    }
}

impl Store {
    /// Gives every member of a group that was taken its record. The caller holds the group's image.
    ///
    /// Called twice: they have it already.
    pub(crate) fn finish_taking(&self, group: &GroupRecord) -> Result<(), StateError> {
        for member in &group.members {
            let key = member.key();
            if self.read::<SnapshotRecord>(&key)?.is_some() {
                continue;
            }
            let image = self.lock(Area::Snapshots, &key)?;
            let path = self.image_path(Area::Snapshots, &key);
            let image = image.ok_or(StateError::ImageLost { path })?;
            self.write(&image, member)?;
        }
        Ok(())
    }

    /// Removes a group and all its members.
    ///
    /// Called twice: the second call finds what the first left, or nothing.
    pub(crate) fn remove_group(
        &self,
        image: Image,
        mut group: GroupRecord,
    ) -> Result<(), StateError> {
        if group.stage != GroupStage::Leaving {
            group.stage = GroupStage::Leaving;
            self.write(&image, &group)?;
        }
        for member in &group.members {
            if let Some(member) = self.lock(Area::Snapshots, &member.key())? {
                self.remove(Area::Snapshots, member)?;
            } else {
                super::remove_if_there(&self.record_path(Area::Snapshots, &member.key()))?;
            }
        }
        self.remove(Area::Groups, image)
    }

    /// Goes every group's way to its end that a process that died began. Takes only what it can lock.
    ///
    /// Called twice: all groups are whole.
    pub(super) fn settle_groups(&self) -> Result<(), StateError> {
        for key in self.keys(Area::Groups, None)? {
            match self.settle_group(&key) {
                // Its owner lives and will do it.
                Ok(()) | Err(StateError::Locked { .. }) => {}
                // One group's trouble is not everybody's.
                Err(error) => {
                    let error = chain(&error);
                    tracing::error!(%key, error, "A group of snapshots cannot be used.");
                }
            }
        }
        Ok(())
    }

    fn settle_group(&self, key: &Key) -> Result<(), StateError> {
        let image = self.lock_or_make(Area::Groups, key)?;
        let Some(group) = self.read::<GroupRecord>(key)? else {
            return Ok(());
        };
        match group.stage {
            GroupStage::Taken => {
                self.finish_taking(&group)?;
                image.mark(Stage::Finished)
            }
            GroupStage::Leaving => {
                tracing::info!(
                    group = group.id,
                    "Removing the rest of a group that was partly removed."
                );
                self.remove_group(image, group)
            }
        }
    }
}

#[cfg(test)]
mod tests;
