//! `CreateSnapshot` and `DeleteSnapshot`.
//!
//! A snapshot of a volume is a read-only snapshot of its filesystem. It is found by its access point, which is derived
//! from the snapshot's name and its volume; the name on the array has a prefix that people change.

use std::sync::Arc;

use prost_types::Timestamp;
use stowage_csi::proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    Snapshot as CsiSnapshot,
};
use stowage_csi::sizes::signed;

use super::inspect::hidden;
use crate::driver::Driver;
use crate::error::Error;
use crate::handle::{Backing, Handle};
use crate::name;
use crate::rest::Deadline;
use crate::rest::api::NewSnapshot;
use crate::rest::wire::Snapshot;
use crate::snapshot_id::SnapshotId;

/// What needs the API.
const WHAT: &str = "snapshots";

pub(super) async fn create(
    driver: &Arc<Driver>,
    request: CreateSnapshotRequest,
    deadline: Deadline,
) -> Result<CreateSnapshotResponse, Error> {
    let volume = Handle::parse(&request.source_volume_id)?;
    let id = SnapshotId::new(&request.name, &volume);
    // Also a directory in a snapshot: nothing could be restored from it.
    if id.is_of_directory() && !driver.config.volumes.snapshots_of_directories {
        return Err(Error::MayNotCopyDirectories(request.source_volume_id));
    }
    // The volume must not go meanwhile.
    let (_guard, guard) = (
        driver.locks.lock(&id.to_string())?,
        Arc::new(driver.locks.lock(volume.as_str())?),
    );
    let filesystem = driver
        .filesystem(&request.secrets, volume.filesystem(), deadline)
        .await
        .map_err(|error| missing(error, &volume))?;
    let managed = filesystem.api_for(WHAT)?;
    managed.facts.check_may_write("create a snapshot")?;
    if let Some(found) = managed.snapshot_of(&id).await? {
        let view = driver
            .existing(&filesystem, &id.view(), None, deadline)
            .await?;
        let bytes = view.and_then(|view| Some(view.size()?.bytes));
        return answered(&id, &volume, &found, bytes);
    }
    let name = format!(
        "{}{}",
        driver.config.volumes.snapshot_prefix,
        name::object(&request.name)
    );
    if let Some(other) = managed.api.snapshots_named(&name).await?.pop() {
        return Err(Error::SnapshotClash {
            name: request.name,
            filesystem: other.filesystem,
        });
    }
    let existing = driver
        .required(&filesystem, &volume, Some(&guard), deadline)
        .await?;
    let source = managed.snapshot_holding(&volume).await?;
    let source = source.map(|source| source.uid);
    let new = NewSnapshot {
        name: &name,
        access_point: id.access_point(),
        source: source.as_deref(),
        writable: false,
    };
    let made = managed.api.create_snapshot(&managed.filesystem, &new);
    let bytes = existing.size().map(|size| size.bytes);
    answered(&id, &volume, &made.await?.0, bytes)
}

/// A volume that is a filesystem is gone with it; any other may be well, where the secret does not show it.
fn missing(error: Error, volume: &Handle) -> Error {
    match (error, volume.backing()) {
        (Error::FilesystemMissing(_), Backing::Filesystem) => {
            Error::VolumeMissing(volume.to_string())
        }
        (error, _) => hidden(error, volume),
    }
}

fn answered(
    id: &SnapshotId,
    volume: &Handle,
    found: &Snapshot,
    bytes: Option<u64>,
) -> Result<CreateSnapshotResponse, Error> {
    if found.is_writable {
        return Err(Error::AccessPointTaken {
            filesystem: volume.filesystem().to_owned(),
            access_point: found.access_point.clone(),
            snapshot: found.name.clone(),
        });
    }
    Ok(CreateSnapshotResponse {
        snapshot: Some(described(id, volume.to_string(), found, bytes)),
    })
}

/// A snapshot as callers see it.
pub(super) fn described(
    id: &SnapshotId,
    volume: String,
    found: &Snapshot,
    bytes: Option<u64>,
) -> CsiSnapshot {
    CsiSnapshot {
        size_bytes: bytes.map_or(0, signed),
        snapshot_id: id.to_string(),
        source_volume_id: volume,
        creation_time: found.creation_time.parse::<Timestamp>().ok(),
        ready_to_use: true,
        ..CsiSnapshot::default()
    }
}

pub(super) async fn delete(
    driver: &Driver,
    request: DeleteSnapshotRequest,
    deadline: Deadline,
) -> Result<DeleteSnapshotResponse, Error> {
    // Nobody ever made a snapshot with such an id.
    let Ok(id) = SnapshotId::parse(&request.snapshot_id) else {
        return Ok(DeleteSnapshotResponse {});
    };
    let _guard = driver.locks.lock(&request.snapshot_id)?;
    let filesystem = driver
        .filesystem(&request.secrets, id.filesystem(), deadline)
        .await
        .map_err(|error| match error {
            Error::FilesystemMissing(filesystem) => Error::FilesystemHidden {
                filesystem,
                kind: "snapshot",
                id: request.snapshot_id.clone(),
                remedy: "set the deletionPolicy of its VolumeSnapshotContent to Retain",
            },
            error => error,
        })?;
    let managed = filesystem.api_for(WHAT)?;
    managed.facts.check_may_write("delete a snapshot")?;
    match managed.snapshot_of(&id).await? {
        None => driver.await_deleted(managed, id.access_point()).await?,
        // It is a volume.
        Some(found) if found.is_writable => return Err(Error::NotOurs(request.snapshot_id)),
        Some(found) => driver.delete_snapshot(managed, &found).await?,
    }
    Ok(DeleteSnapshotResponse {})
}
