//! Snapshots.

use kube::ResourceExt as _;
use prost_types::Timestamp;
use stowage_api::quantity;
use stowage_api::vpsa::{Snapshot, SnapshotSpec, SnapshotState, Volume};
use stowage_csi::proto::csi::list_snapshots_response::Entry;
use stowage_csi::proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, Snapshot as CsiSnapshot,
};
use stowage_rest::Deadline;

use super::create::missing;
use super::{Services, page};
use crate::driver::error::Error;
use crate::driver::names::object_name;
use crate::driver::objects::{held, trouble};
use crate::driver::parameters::{ParameterError, Parameters};

/// Makes the object, and waits until the control plane has taken the snapshot.
pub(super) async fn create(
    services: &Services,
    request: CreateSnapshotRequest,
    deadline: Deadline,
) -> Result<CreateSnapshotResponse, Error> {
    let name = object_name("snapshot", &request.name);
    let _guard = services.locks.lock(&name)?;
    if Parameters::try_from(&request.parameters)? != Parameters::default() {
        let text = "VSCStorageClassName and volumeOptions (snapshot classes have none)";
        return Err(ParameterError::Unknown(text.to_owned()).into());
    }
    let objects = &services.objects;
    let existing: Option<Snapshot> = objects.gone_or_there(&name, deadline).await?;
    let is_new = existing.is_none();
    match existing {
        Some(there) if there.spec.volume_id != request.source_volume_id => {
            return Err(Error::Incompatible {
                kind: "Snapshot",
                name,
                difference: format!("another source: `{}`", there.spec.volume_id),
            });
        }
        Some(_) => {}
        None => {
            let volume: Option<Volume> = objects.writer.read(&request.source_volume_id).await?;
            volume.ok_or_else(|| missing(&request.source_volume_id))?;
        }
    }
    let wanted = Snapshot {
        metadata: held(&name),
        spec: SnapshotSpec {
            display_name: name.clone(),
            volume_id: request.source_volume_id.clone(),
            ..SnapshotSpec::default()
        },
        status: None,
    };
    let judge = |snapshot: Option<&Snapshot>| match snapshot {
        Some(snapshot) if is_ready(snapshot) => Some(Ok(snapshot.clone())),
        Some(snapshot) => trouble(snapshot, &name, "ready").map(Err),
        None => Some(Err(Error::Missing {
            kind: "Snapshot",
            name: name.clone(),
        })),
    };
    let made = objects.ensure(&wanted, is_new);
    let snapshot = objects
        .until_after(made, &name, "ready", deadline, judge)
        .await?;
    Ok(CreateSnapshotResponse {
        snapshot: Some(describe(&snapshot)),
    })
}

/// Has the object deleted, and waits until the control plane has deleted the snapshot.
pub(super) async fn delete(
    services: &Services,
    request: DeleteSnapshotRequest,
    deadline: Deadline,
) -> Result<DeleteSnapshotResponse, Error> {
    let _guard = services.locks.lock(&request.snapshot_id)?;
    let name = &request.snapshot_id;
    services.objects.delete::<Snapshot>(name, deadline).await?;
    Ok(DeleteSnapshotResponse {})
}

/// Those that are ready, in the order of their names.
pub(super) fn list(
    services: &Services,
    request: &ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, Error> {
    let is_asked_for = |snapshot: &Snapshot| {
        let (id, volume) = (&request.snapshot_id, &request.source_volume_id);
        (id.is_empty() || snapshot.name_any() == *id)
            && (volume.is_empty() || snapshot.spec.volume_id == *volume)
            && is_ready(snapshot)
    };
    let all = services.objects.cluster.snapshots.store().all();
    let all = all
        .iter()
        .map(|it| &it.object)
        .filter(|it| is_asked_for(it));
    let all = all.map(|it| {
        let entry = Entry {
            snapshot: Some(describe(it)),
        };
        (it.name_any(), entry)
    });
    let (entries, next_token) = page(all.collect(), &request.starting_token, request.max_entries)?;
    Ok(ListSnapshotsResponse {
        entries,
        next_token,
    })
}

fn is_ready(snapshot: &Snapshot) -> bool {
    let status = snapshot.status.as_ref();
    status.is_some_and(|it| it.state == SnapshotState::Ready)
}

fn describe(snapshot: &Snapshot) -> CsiSnapshot {
    let status = snapshot.status.clone().unwrap_or_default();
    let size = status.size.and_then(|it| quantity::size(&it.0).ok());
    let taken = status
        .created_timestamp
        .or_else(|| snapshot.creation_timestamp());
    CsiSnapshot {
        snapshot_id: snapshot.name_any(),
        source_volume_id: snapshot.spec.volume_id.clone(),
        size_bytes: size.unwrap_or(0),
        creation_time: taken.map(|time| Timestamp {
            seconds: time.0.as_second(),
            nanos: time.0.subsec_nanosecond(),
        }),
        ready_to_use: status.state == SnapshotState::Ready,
        ..CsiSnapshot::default()
    }
}
