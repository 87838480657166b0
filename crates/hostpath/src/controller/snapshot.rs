//! Snapshots: copies of volumes, which live on after them.

use std::sync::Arc;

use prost_types::Timestamp;
use stowage_csi::proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
    list_snapshots_response,
};
use stowage_host::blocking;

use super::inspect::token;
use crate::driver::Driver;
use crate::error::Error;
use crate::id::{Id, Kind};
use crate::state::{
    Area, GroupRecord, Image, SnapshotRecord, Stage, StateError, VolumeRecord, from_unix_ms,
    now_unix_ms,
};

/// Takes a snapshot, complete and ready when this returns.
pub(super) async fn create(
    driver: Arc<Driver>,
    request: CreateSnapshotRequest,
) -> Result<CreateSnapshotResponse, Error> {
    let id = driver.new_id(Kind::Snapshot, &request.name);
    let key = id.to_string();
    let _guard = driver
        .locks
        .lock_all([key.as_str(), request.source_volume_id.as_str()])?;
    let (store, key) = (driver.store.clone(), id.key.clone());
    let existing = blocking(move || store.read::<SnapshotRecord>(&key)).await?;
    let record = match existing {
        Some(record) if record.source_volume == request.source_volume_id => {
            // The directory of a node that has another name now.
            driver.local(Kind::Snapshot, &record.id)?;
            record
        }
        Some(record) => {
            return Err(Error::Incompatible {
                name: record.name,
                difference: format!("another source: `{}`", record.source_volume),
            });
        }
        None => take(&driver, id, request).await?,
    };
    Ok(CreateSnapshotResponse {
        snapshot: Some(describe(&record)),
    })
}

async fn take(
    driver: &Driver,
    id: Id,
    request: CreateSnapshotRequest,
) -> Result<SnapshotRecord, Error> {
    let (source, volume) = driver.claim_volume(&request.source_volume_id).await?;
    let (store, key) = (driver.store.clone(), id.key.clone());
    let image = blocking(move || store.lock_or_make(Area::Snapshots, &key)).await?;
    if let Some(record) = driver.read::<SnapshotRecord>(&id).await? {
        // Another process was faster to the lock.
        return Ok(record);
    }
    if image.stage()? == Stage::Finished {
        let path = image.path().to_owned();
        return Err(StateError::RecordLost { path }.into());
    }
    let record = SnapshotRecord {
        id: id.to_string(),
        name: request.name,
        source_volume: request.source_volume_id,
        bytes: volume.bytes,
        access: volume.access,
        filesystem: volume.filesystem,
        created_unix_ms: now_unix_ms(),
        formatted: volume.formatted,
        group: None,
    };
    let taken = fill(driver, (&source, &volume), image, record).await;
    if taken.is_err() {
        driver.give_up(Area::Snapshots, id.key).await;
    }
    taken
}

async fn fill(
    driver: &Driver,
    (source, volume): (&Image, &VolumeRecord),
    image: Image,
    record: SnapshotRecord,
) -> Result<SnapshotRecord, Error> {
    driver.copy_volume(source, volume, &image).await?;
    let bytes = record.bytes;
    driver.write_sized(image, bytes, record.clone()).await?;
    Ok(record)
}

/// Removes a snapshot; volumes made from it stand for themselves.
pub(super) async fn delete(
    driver: Arc<Driver>,
    request: DeleteSnapshotRequest,
) -> Result<DeleteSnapshotResponse, Error> {
    let Some(id) = driver.local(Kind::Snapshot, &request.snapshot_id)? else {
        return Ok(DeleteSnapshotResponse {});
    };
    let _guard = driver.locks.lock(&request.snapshot_id)?;
    let record = driver.read::<SnapshotRecord>(&id).await?;
    let known = record.is_some();
    refuse_member(&driver, record).await?;
    let store = driver.store.clone();
    blocking(move || {
        let image = if known {
            Some(store.lock_or_make(Area::Snapshots, &id.key)?)
        } else {
            store.lock(Area::Snapshots, &id.key)?
        };
        match image {
            Some(image) if known || image.stage()? == Stage::Unfinished => {
                store.remove(Area::Snapshots, image)
            }
            _ => Ok(()),
        }
    })
    .await?;
    Ok(DeleteSnapshotResponse {})
}

/// A member goes with its group. One whose group was lost may go by itself: nothing else could remove it.
async fn refuse_member(driver: &Driver, record: Option<SnapshotRecord>) -> Result<(), Error> {
    let Some((id, group)) = record.and_then(|record| Some((record.id, record.group?))) else {
        return Ok(());
    };
    let group_id = Id::parse(Kind::Group, &group);
    let exists = match &group_id {
        Some(id) => driver.read::<GroupRecord>(id).await?.is_some(),
        None => false,
    };
    if exists {
        return Err(Error::GroupMember { id, group });
    }
    Ok(())
}

/// One snapshot.
pub(super) async fn get(
    driver: &Driver,
    request: GetSnapshotRequest,
) -> Result<GetSnapshotResponse, Error> {
    let missing = || Error::SnapshotMissing(request.snapshot_id.clone());
    let id = driver.local(Kind::Snapshot, &request.snapshot_id)?;
    let record = driver.read(&id.ok_or_else(missing)?).await?;
    Ok(GetSnapshotResponse {
        snapshot: Some(describe(&record.ok_or_else(missing)?)),
    })
}

/// All snapshots, or those of one volume, or one. Damaged ones are left out; they are in the log.
pub(super) async fn list(
    driver: &Driver,
    request: ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, Error> {
    if !request.snapshot_id.is_empty() {
        return list_one(driver, &request).await;
    }
    let after = token(&request.starting_token)?;
    let most = usize::try_from(request.max_entries).unwrap_or(0);
    let (store, source) = (driver.store.clone(), request.source_volume_id);
    let wanted = move |record: &SnapshotRecord| source.is_empty() || record.source_volume == source;
    let page = blocking(move || store.page(after.as_ref(), most, wanted)).await?;
    let readable = page
        .entries
        .iter()
        .filter_map(|(_, read)| read.as_ref().ok());
    Ok(ListSnapshotsResponse {
        entries: readable.map(entry).collect(),
        next_token: page.next.map(|key| key.to_string()).unwrap_or_default(),
    })
}

async fn list_one(
    driver: &Driver,
    request: &ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, Error> {
    // One that is on another node is not in our list.
    let record = match Id::parse(Kind::Snapshot, &request.snapshot_id) {
        Some(id) => driver.read::<SnapshotRecord>(&id).await?,
        None => None,
    };
    let source = &request.source_volume_id;
    let fits = record.filter(|record| source.is_empty() || record.source_volume == *source);
    Ok(ListSnapshotsResponse {
        entries: fits.iter().map(entry).collect(),
        next_token: String::new(),
    })
}

fn entry(record: &SnapshotRecord) -> list_snapshots_response::Entry {
    list_snapshots_response::Entry {
        snapshot: Some(describe(record)),
    }
}

pub(crate) fn describe(record: &SnapshotRecord) -> Snapshot {
    Snapshot {
        size_bytes: i64::try_from(record.bytes).unwrap_or(i64::MAX),
        snapshot_id: record.id.clone(),
        source_volume_id: record.source_volume.clone(),
        creation_time: Some(Timestamp::from(from_unix_ms(record.created_unix_ms))),
        ready_to_use: true,
        group_snapshot_id: record.group.clone().unwrap_or_default(),
    }
}
