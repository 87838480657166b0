//! `GetVolumeGroupSnapshot` and `DeleteVolumeGroupSnapshot`: what is done to a group that exists.

use std::collections::BTreeSet;
use std::sync::Arc;

use stowage_csi::proto::csi::{
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse,
    GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
};
use stowage_host::blocking;

use super::describe;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::Kind;
use crate::state::{Area, GroupRecord, GroupStage};

/// One group.
pub(super) async fn get(
    driver: &Driver,
    request: GetVolumeGroupSnapshotRequest,
) -> Result<GetVolumeGroupSnapshotResponse, Error> {
    let missing = || Error::GroupMissing(request.group_snapshot_id.clone());
    let id = driver.local(Kind::Group, &request.group_snapshot_id)?;
    let group = driver.read(&id.ok_or_else(missing)?).await?;
    let group: GroupRecord = group.ok_or_else(missing)?;
    if group.stage == GroupStage::Leaving {
        return Err(missing());
    }
    group.check_members(&request.snapshot_ids)?;
    Ok(GetVolumeGroupSnapshotResponse {
        group_snapshot: Some(describe(&group)),
    })
}

/// Removes a group with all its members; volumes made from them stand for themselves.
pub(super) async fn delete(
    driver: Arc<Driver>,
    request: DeleteVolumeGroupSnapshotRequest,
) -> Result<DeleteVolumeGroupSnapshotResponse, Error> {
    let done = DeleteVolumeGroupSnapshotResponse {};
    let Some(id) = driver.local(Kind::Group, &request.group_snapshot_id)? else {
        return Ok(done);
    };
    let Some(group) = driver.read::<GroupRecord>(&id).await? else {
        return Ok(done);
    };
    group.check_members(&request.snapshot_ids)?;
    let _guard = driver.locks.lock_all(group.locks())?;
    // Again, for it may have gone before we got the lock.
    let Some(group) = driver.read::<GroupRecord>(&id).await? else {
        return Ok(done);
    };
    remove(&driver, group).await?;
    Ok(done)
}

/// Removes a group. The caller has its locks.
pub(super) async fn remove(driver: &Driver, group: GroupRecord) -> Result<(), Error> {
    let store = driver.store.clone();
    let removed = blocking(move || {
        let image = store.lock_or_make(Area::Groups, &group.key())?;
        store.remove_group(image, group)
    });
    Ok(removed.await?)
}

impl GroupRecord {
    /// What must not be worked on by others meanwhile.
    fn locks(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter().map(|member| member.id.as_str());
        members.chain([self.id.as_str()])
    }

    /// Refuses a caller that thinks of another group.
    fn check_members(&self, asked: &[String]) -> Result<(), Error> {
        let members: BTreeSet<&String> = self.members.iter().map(|member| &member.id).collect();
        if members == asked.iter().collect() {
            return Ok(());
        }
        Err(Error::OtherMembers {
            id: self.id.clone(),
            members: members.into_iter().cloned().collect(),
        })
    }
}
