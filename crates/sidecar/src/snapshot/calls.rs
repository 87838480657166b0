//! The calls to the driver, for both kinds of content, and what its answers become in the status.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::group_controller_client::GroupControllerClient;
use stowage_csi::proto::csi::{
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, DeleteSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest, GetSnapshotRequest, GetVolumeGroupSnapshotRequest,
    ListSnapshotsRequest, Snapshot, VolumeGroupSnapshot,
};

use super::failure::Failure;
use crate::cluster::content::{Content, Kind};
use crate::driver::Capabilities;

/// Secrets, or parameters.
pub(super) type Strings = BTreeMap<String, String>;

/// What the driver says of a snapshot or a group.
pub(super) struct Found {
    pub(super) handle: String,
    pub(super) ready: bool,
    /// The whole status of the content.
    pub(super) status: Value,
}

/// Calls the driver.
pub(super) struct Calls {
    capabilities: Capabilities,
    controller: ControllerClient<Connection>,
    groups: GroupControllerClient<Connection>,
}

impl Calls {
    pub(super) fn new(capabilities: Capabilities, connection: Connection) -> Self {
        Self {
            capabilities,
            controller: ControllerClient::new(connection.clone()),
            groups: GroupControllerClient::new(connection),
        }
    }

    /// Has the snapshot made. Called twice with the same name: the same snapshot.
    pub(super) async fn create_snapshot(
        &self,
        content: &Content,
        name: String,
        volumes: &[String],
        parameters: Strings,
        secrets: Strings,
    ) -> Result<Found, Failure> {
        match content.kind {
            Kind::Single => {
                let request = CreateSnapshotRequest {
                    source_volume_id: volumes.first().cloned().unwrap_or_default(),
                    name,
                    secrets,
                    parameters,
                };
                let answer = self.controller.clone().create_snapshot(request).await?;
                let snapshot = answer.into_inner().snapshot;
                single(snapshot.ok_or_else(no_snapshot)?, content)
            }
            Kind::Group => {
                let request = CreateVolumeGroupSnapshotRequest {
                    name,
                    source_volume_ids: volumes.to_vec(),
                    secrets,
                    parameters,
                };
                let mut groups = self.groups.clone();
                let answer = groups.create_volume_group_snapshot(request).await?;
                let group = answer.into_inner().group_snapshot;
                let group = group.ok_or_else(no_snapshot)?;
                let has = |volume: &&String| {
                    let mut members = group.snapshots.iter();
                    members.any(|member| member.source_volume_id == **volume)
                };
                if let Some(missing) = volumes.iter().find(|volume| !has(volume)) {
                    let text = format!("volume `{missing}` is not in the group");
                    return Err(Failure::Answer(text));
                }
                group_of(group)
            }
        }
    }

    /// Asks for the state of a snapshot that exists. A driver that cannot be asked has it ready.
    pub(super) async fn get_snapshot(
        &self,
        content: &Content,
        handle: &str,
        members: &[String],
        secrets: Strings,
    ) -> Result<Found, Failure> {
        if content.kind == Kind::Group {
            let request = GetVolumeGroupSnapshotRequest {
                group_snapshot_id: handle.to_owned(),
                snapshot_ids: members.to_vec(),
                secrets,
            };
            let answer = self
                .groups
                .clone()
                .get_volume_group_snapshot(request)
                .await?;
            let group = answer.into_inner().group_snapshot;
            return group_of(group.ok_or_else(no_snapshot)?);
        }
        let snapshot = if self.capabilities.list_snapshots() {
            self.find_in_list(handle, secrets).await?
        } else if self.capabilities.get_snapshot() {
            let request = GetSnapshotRequest {
                snapshot_id: handle.to_owned(),
                secrets,
            };
            let answer = self.controller.clone().get_snapshot(request).await?;
            answer.into_inner().snapshot.ok_or_else(no_snapshot)?
        } else {
            Snapshot {
                snapshot_id: handle.to_owned(),
                ready_to_use: true,
                ..Snapshot::default()
            }
        };
        if snapshot.snapshot_id != handle {
            let text = format!("asked for `{handle}`, got `{}`", snapshot.snapshot_id);
            return Err(Failure::Answer(text));
        }
        single(snapshot, content)
    }

    async fn find_in_list(&self, handle: &str, secrets: Strings) -> Result<Snapshot, Failure> {
        let request = ListSnapshotsRequest {
            snapshot_id: handle.to_owned(),
            secrets,
            ..ListSnapshotsRequest::default()
        };
        let answer = self.controller.clone().list_snapshots(request).await?;
        let mut entries = answer.into_inner().entries.into_iter();
        let first = entries.find_map(|entry| entry.snapshot);
        first.ok_or_else(|| Failure::Missing(handle.to_owned()))
    }

    /// Has the snapshot deleted. Called twice: it is gone already, which is success.
    pub(super) async fn delete_snapshot(
        &self,
        content: &Content,
        handle: String,
        members: Vec<String>,
        secrets: Strings,
    ) -> Result<(), Failure> {
        match content.kind {
            Kind::Single => {
                let request = DeleteSnapshotRequest {
                    snapshot_id: handle,
                    secrets,
                };
                self.controller.clone().delete_snapshot(request).await?;
            }
            Kind::Group => {
                let request = DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: handle,
                    snapshot_ids: members,
                    secrets,
                };
                let mut groups = self.groups.clone();
                groups.delete_volume_group_snapshot(request).await?;
            }
        }
        Ok(())
    }
}

fn no_snapshot() -> Failure {
    Failure::Answer("it has no snapshot".to_owned())
}

fn single(snapshot: Snapshot, content: &Content) -> Result<Found, Failure> {
    if snapshot.snapshot_id.is_empty() {
        return Err(Failure::Answer("the snapshot has no id".to_owned()));
    }
    let mut status = json!({
        "snapshotHandle": snapshot.snapshot_id,
        "creationTime": nanoseconds(snapshot.creation_time.map(|at| (at.seconds, at.nanos))),
        "readyToUse": snapshot.ready_to_use,
    });
    set_size(&mut status, &snapshot);
    let told = Some(snapshot.group_snapshot_id).filter(|group| !group.is_empty());
    if let Some(group) = content.state.group.clone().or(told) {
        status["volumeGroupSnapshotHandle"] = json!(group);
    }
    Ok(Found {
        handle: snapshot.snapshot_id,
        ready: snapshot.ready_to_use,
        status,
    })
}

fn group_of(group: VolumeGroupSnapshot) -> Result<Found, Failure> {
    let nameless = |snapshot: &Snapshot| snapshot.snapshot_id.is_empty();
    if group.group_snapshot_id.is_empty() || group.snapshots.iter().any(nameless) {
        let text = "the group or one of its members has no id".to_owned();
        return Err(Failure::Answer(text));
    }
    let member = |snapshot: &Snapshot| {
        let mut member = json!({
            "volumeHandle": snapshot.source_volume_id,
            "snapshotHandle": snapshot.snapshot_id,
            "creationTime": nanoseconds(snapshot.creation_time.map(|at| (at.seconds, at.nanos))),
            "readyToUse": snapshot.ready_to_use,
        });
        set_size(&mut member, snapshot);
        member
    };
    let created = nanoseconds(group.creation_time.map(|at| (at.seconds, at.nanos)));
    let created = Timestamp::from_nanosecond(created.into());
    Ok(Found {
        status: json!({
            "volumeGroupSnapshotHandle": group.group_snapshot_id,
            "creationTime": Time(created.unwrap_or_else(|_| Timestamp::now())),
            "readyToUse": group.ready_to_use,
            "volumeSnapshotInfoList": group.snapshots.iter().map(member).collect::<Vec<_>>(),
        }),
        ready: group.ready_to_use,
        handle: group.group_snapshot_id,
    })
}

/// A driver that says nothing of the size says 0: as a size that would let nothing be restored but by chance.
fn set_size(status: &mut Value, snapshot: &Snapshot) {
    if snapshot.size_bytes > 0 {
        status["restoreSize"] = json!(snapshot.size_bytes);
    }
}

/// Since 1970. A driver that does not say when means now, as for upstream.
fn nanoseconds(seconds_and_rest: Option<(i64, i32)>) -> i64 {
    let time = seconds_and_rest.map(|(seconds, rest)| {
        let nanoseconds = i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        i64::try_from(nanoseconds).unwrap_or(i64::MAX)
    });
    time.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_the_driver_does_not_know_is_not_written() {
        for (size_bytes, expected) in [(0, Value::Null), (-1, Value::Null), (5, json!(5))] {
            let snapshot = Snapshot {
                size_bytes,
                ..Snapshot::default()
            };
            let mut status = json!({});
            set_size(&mut status, &snapshot);
            assert_eq!(status["restoreSize"], expected);
        }
    }
}
