//! `CreateVolumeGroupSnapshot`.

use std::collections::BTreeSet;
use std::sync::Arc;

use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse,
};
use stowage_host::blocking;

use super::{describe, find};
use crate::content::Copy;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Id, Kind};
use crate::state::{
    Area, GroupRecord, GroupStage, Image, SnapshotRecord, Stage, StateError, Store, VolumeRecord,
    now_unix_ms,
};

/// What is asked for: a name and the volumes. A volume that is named twice is one volume, in whatever order they come.
struct Wanted {
    id: Id,
    name: String,
    sources: BTreeSet<String>,
}

impl Wanted {
    fn new(driver: &Driver, request: CreateVolumeGroupSnapshotRequest) -> Self {
        Self {
            id: driver.new_id(Kind::Group, &request.name),
            name: request.name,
            sources: request.source_volume_ids.into_iter().collect(),
        }
    }

    /// The name of a member: the same for the same call, and unlike any that a caller would think of.
    fn member_name(&self, source: &str) -> String {
        format!("{} of {}", source, self.id)
    }
}

/// Takes a group snapshot, complete and ready when this returns.
pub(super) async fn create(
    driver: Arc<Driver>,
    request: CreateVolumeGroupSnapshotRequest,
) -> Result<CreateVolumeGroupSnapshotResponse, Error> {
    let wanted = Wanted::new(&driver, request);
    let members = wanted.sources.iter().map(|source| {
        driver
            .new_id(Kind::Snapshot, &wanted.member_name(source))
            .to_string()
    });
    let group = wanted.id.to_string();
    let keys: Vec<String> = members.chain([group]).collect();
    let _guard = driver
        .locks
        .lock_all(keys.iter().chain(&wanted.sources).map(String::as_str))?;
    let group = match existing(&driver, &wanted).await? {
        Some(group) => group,
        None => take(&driver, &wanted).await?,
    };
    Ok(CreateVolumeGroupSnapshotResponse {
        group_snapshot: Some(describe(&group)),
    })
}

/// The group of that name, whole, if it was taken before.
async fn existing(driver: &Driver, wanted: &Wanted) -> Result<Option<GroupRecord>, Error> {
    let (store, key) = (driver.store.clone(), wanted.id.key.clone());
    let Some(group) = blocking(move || store.read::<GroupRecord>(&key)).await? else {
        return Ok(None);
    };
    // The directory of a node that has another name now.
    driver.local(Kind::Group, &group.id)?;
    if group.stage == GroupStage::Leaving {
        find::remove(driver, group).await?;
        return Ok(None);
    }
    let sources = group.members.iter().map(|member| &member.source_volume);
    if !sources.clone().eq(&wanted.sources) {
        let sources: Vec<_> = sources.cloned().collect();
        return Err(Error::Incompatible {
            difference: format!("other sources: {}", sources.join(", ")),
            name: group.name,
        });
    }
    let store = driver.store.clone();
    let finished = blocking(move || {
        let _image = store.lock_or_make(Area::Groups, &group.key())?;
        store.finish_taking(&group)?;
        Ok::<_, StateError>(group)
    });
    Ok(Some(finished.await?))
}

async fn take(driver: &Driver, wanted: &Wanted) -> Result<GroupRecord, Error> {
    let mut volumes = Vec::new();
    for source in &wanted.sources {
        volumes.push(driver.claim_volume(source).await?);
    }
    let group = plan(driver, wanted, &volumes);
    let taken = fill(driver, &volumes, group.clone()).await;
    // What was written down is there, and a repeated call goes its way to the end.
    if taken.is_err() && matches!(driver.read::<GroupRecord>(&wanted.id).await, Ok(None)) {
        for member in &group.members {
            driver.give_up(Area::Snapshots, member.key()).await;
        }
        driver.give_up(Area::Groups, group.key()).await;
    }
    taken
}

fn plan(driver: &Driver, wanted: &Wanted, volumes: &[(Image, VolumeRecord)]) -> GroupRecord {
    let (id, now) = (wanted.id.to_string(), now_unix_ms());
    let members = volumes.iter().map(|(_, volume)| {
        let name = wanted.member_name(&volume.id);
        SnapshotRecord {
            id: driver.new_id(Kind::Snapshot, &name).to_string(),
            name,
            source_volume: volume.id.clone(),
            bytes: volume.bytes,
            access: volume.access,
            filesystem: volume.filesystem,
            created_unix_ms: now,
            formatted: volume.formatted,
            group: Some(id.clone()),
        }
    });
    GroupRecord {
        members: members.collect(),
        name: wanted.name.clone(),
        created_unix_ms: now,
        stage: GroupStage::Taken,
        id,
    }
}

async fn fill(
    driver: &Driver,
    volumes: &[(Image, VolumeRecord)],
    mut group: GroupRecord,
) -> Result<GroupRecord, Error> {
    let (store, planned) = (driver.store.clone(), group.clone());
    let (lock, images) = blocking(move || make_images(&store, &planned)).await?;
    let copies: Vec<_> = volumes
        .iter()
        .zip(&images)
        .map(|((from, record), to)| Copy { from, record, to })
        .collect();
    driver.copy_together(&copies).await?;
    let now = now_unix_ms();
    group.created_unix_ms = now;
    for member in &mut group.members {
        member.created_unix_ms = now;
    }
    let store = driver.store.clone();
    let written = blocking(move || {
        for (image, member) in images.iter().zip(&group.members) {
            image.lengthen(member.bytes)?;
        }
        // With this they exist, all of them.
        store.write(&lock, &group)?;
        for (image, member) in images.iter().zip(&group.members) {
            store.write(image, member)?;
        }
        Ok::<_, StateError>(group)
    });
    Ok(written.await?)
}

/// The images of a group and its members, which must not hold anything yet.
fn make_images(store: &Store, group: &GroupRecord) -> Result<(Image, Vec<Image>), Error> {
    let lock = store.lock_or_make(Area::Groups, &group.key())?;
    if store.read::<GroupRecord>(&group.key())?.is_some() {
        // Another process was faster to the lock.
        let image = lock.path().to_owned();
        return Err(StateError::Locked { image }.into());
    }
    let mut images = Vec::new();
    for member in &group.members {
        let image = store.lock_or_make(Area::Snapshots, &member.key())?;
        if let Some(other) = store.read::<SnapshotRecord>(&member.key())? {
            return Err(Error::Incompatible {
                name: other.name,
                difference: "no group".to_owned(),
            });
        }
        if image.stage()? == Stage::Finished {
            let path = image.path().to_owned();
            return Err(StateError::RecordLost { path }.into());
        }
        images.push(image);
    }
    Ok((lock, images))
}
