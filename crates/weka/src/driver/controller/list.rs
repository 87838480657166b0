//! `ListVolumes` and `ListSnapshots`.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use stowage_csi::proto::csi::list_snapshots_response::Entry as SnapshotEntry;
use stowage_csi::proto::csi::list_volumes_response::{Entry, VolumeStatus};
use stowage_csi::proto::csi::{
    ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse, Volume,
    VolumeCondition,
};
use stowage_csi::sizes::signed;

use super::inspect::{condition, known};
use super::snapshot::described;
use crate::driver::Driver;
use crate::driver::inventory::{Inventory, State};
use crate::error::Error;
use crate::handle::Handle;
use crate::quota::Size;
use crate::rest::wire::{Filesystem, Quota, Snapshot};
use crate::rest::{Api, Deadline};
use crate::snapshot_id::SnapshotId;
use crate::{name, topology};

/// How many snapshots are asked about at a time: the array lists the quotas of directories, but not those in snapshots.
const SNAPSHOTS_AT_A_TIME: usize = 16;

/// All volumes that Kubernetes has, or, where it cannot be asked, all with a quota on every cluster that the driver knows.
pub(super) async fn list(
    driver: &Driver,
    request: ListVolumesRequest,
    deadline: Deadline,
) -> Result<ListVolumesResponse, Error> {
    if !request.starting_token.is_empty() && Handle::parse(&request.starting_token).is_err() {
        return Err(Error::BadToken);
    }
    let all = match &driver.inventory {
        Some(inventory) => {
            driver.freshen(inventory, deadline).await;
            in_kubernetes(driver, inventory)
        }
        None => on_clusters(driver, deadline).await?,
    };
    let (entries, next_token) = page(all, &request.starting_token, request.max_entries);
    Ok(ListVolumesResponse {
        entries,
        next_token,
    })
}

/// The snapshots that Kubernetes has. One that is asked for by its handle need not be among them.
pub(super) async fn snapshots(
    driver: &Driver,
    request: ListSnapshotsRequest,
    deadline: Deadline,
) -> Result<ListSnapshotsResponse, Error> {
    let inventory = driver.inventory.as_ref().ok_or(Error::NoCredentials)?;
    let (id, volume) = (request.snapshot_id, request.source_volume_id);
    let is_wanted = |found: &str, source: &str| {
        (id.is_empty() || found == id) && (volume.is_empty() || source == volume)
    };
    let secrets = &request.secrets;
    let mut known = driver
        .known_snapshots(inventory, is_wanted, secrets, deadline)
        .await?;
    if known.is_empty()
        && let Ok(asked) = SnapshotId::parse(&id)
        && is_wanted(&id, asked.source().as_str())
    {
        let found = driver.snapshot_on_cluster(asked, secrets, deadline);
        known.extend(found.await?);
    }
    let all = known.into_iter().map(|known| {
        let described = described(&known.id, known.volume_id, &known.found, known.bytes);
        let entry = SnapshotEntry {
            snapshot: Some(described),
        };
        (known.id.to_string(), entry)
    });
    let (entries, next_token) = page(all.collect(), &request.starting_token, request.max_entries);
    Ok(ListSnapshotsResponse {
        entries,
        next_token,
    })
}

/// A page of entries in the order of their handles; the token is the last handle of the page before.
fn page<T>(mut all: Vec<(String, T)>, after: &str, most: i32) -> (Vec<T>, String) {
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    // A handle does not say on which of several clusters it is, and several PersistentVolumes may have the same.
    all.dedup_by(|(one, _), (other, _)| one == other);
    all.retain(|(handle, _)| handle.as_str() > after);
    let most = usize::try_from(most).ok().filter(|&most| most > 0);
    let more = most.is_some_and(|most| all.len() > most);
    all.truncate(most.unwrap_or(all.len()));
    let last = all.last().map(|(handle, _)| handle.clone());
    let next_token = last.filter(|_| more).unwrap_or_default();
    (
        all.into_iter().map(|(_, entry)| entry).collect(),
        next_token,
    )
}

fn entry(
    driver: &Driver,
    handle: &Handle,
    bytes: u64,
    condition: VolumeCondition,
) -> (String, Entry) {
    let entry = Entry {
        volume: Some(Volume {
            capacity_bytes: signed(bytes),
            volume_id: handle.to_string(),
            accessible_topology: topology::of_volume(&driver.config.serving.driver_name, None),
            ..Volume::default()
        }),
        status: Some(VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition),
        }),
    };
    (handle.to_string(), entry)
}

/// The volumes that Kubernetes has, as they were when they were last read.
fn in_kubernetes(driver: &Driver, inventory: &Inventory) -> Vec<(String, Entry)> {
    let volumes = inventory.volumes();
    let entries = volumes.iter().map(|volume| {
        let state = inventory.reading(volume).map(|reading| reading.state);
        let state = state.unwrap_or_else(|| State::Unknown("it was not read yet".to_owned()));
        let bytes = match &state {
            State::Limited { bytes, .. } => *bytes,
            _ => volume.bytes.unwrap_or(0),
        };
        entry(driver, &volume.handle, bytes, state.condition())
    });
    entries.collect()
}

/// The volumes of all clusters. One that does not answer fails the call: its volumes are not gone.
async fn on_clusters(driver: &Driver, deadline: Deadline) -> Result<Vec<(String, Entry)>, Error> {
    let mut all = Vec::new();
    for api in known(driver, deadline).await? {
        let found = on_cluster(driver, &api).await?;
        all.extend(found.iter().map(|(handle, quota)| {
            let bytes = Size::from(quota.limits()).bytes;
            entry(driver, handle, bytes, condition(Some(quota)))
        }));
    }
    Ok(all)
}

/// The volumes of a cluster. A directory in a snapshot is not among them: nothing on the array says which one it is.
async fn on_cluster(driver: &Driver, api: &Api) -> Result<Vec<(Handle, Quota)>, Error> {
    let mut found = Vec::new();
    let filesystems = api.filesystems().await?;
    for filesystem in &filesystems {
        for quota in api.quotas(filesystem).await? {
            let handle = quota.path_on(&filesystem.name).and_then(|path| {
                Handle::of_path(&filesystem.name, path, &driver.config.dynamic_paths)
            });
            found.extend(handle.map(|handle| (handle, quota)));
        }
    }
    if !api.facts().await?.resolves_paths() {
        return Ok(found);
    }
    let mut snapshots = api.snapshots().await?;
    snapshots.retain(|one| one.is_volume() && name::is_object(&one.access_point));
    let looks = snapshots.iter().filter_map(|snapshot| {
        let mut filesystems = filesystems.iter();
        let filesystem = filesystems.find(|one| one.name == snapshot.filesystem)?;
        Some(of_snapshot(api, filesystem, snapshot))
    });
    let looks: Vec<_> = looks.collect();
    let looks = stream::iter(looks).buffer_unordered(SNAPSHOTS_AT_A_TIME);
    let volumes: Vec<_> = looks.try_collect().await?;
    found.extend(volumes.into_iter().flatten());
    Ok(found)
}

/// The volume that a snapshot is: its root has a quota.
async fn of_snapshot(
    api: &Api,
    filesystem: &Filesystem,
    snapshot: &Snapshot,
) -> Result<Option<(Handle, Quota)>, Error> {
    let handle = Handle::in_snapshot(&filesystem.name, &snapshot.access_point, None);
    let Some(inode) = api.inode(filesystem, &handle.path()).await? else {
        return Ok(None);
    };
    let quota = api.quota(filesystem, inode).await?;
    Ok(quota.map(|quota| (handle, quota)))
}
