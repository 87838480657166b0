//! What the driver has, and the one way to change it: a [`Change`] is written down, then applied.

mod groups;
mod publications;
mod snapshots;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use stowage_csi::proto::csi::{Snapshot, Topology, VolumeCapability, VolumeContentSource};
use tonic::Status;

pub(super) use self::publications::mode;
use super::journal::Journal;

/// How volumes were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// As a filesystem.
    Mount,
    /// As a device.
    Block,
}

/// A volume, as it was asked for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeptVolume {
    /// What the caller knows it by.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The name in `CreateVolume`.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Bytes.
    #[prost(int64, tag = "3")]
    pub size: i64,
    /// What it was made from.
    #[prost(message, optional, tag = "4")]
    pub source: Option<VolumeContentSource>,
    /// Where it is.
    #[prost(message, optional, tag = "5")]
    pub place: Option<Topology>,
    /// As in the request.
    #[prost(btree_map = "string, string", tag = "6")]
    pub parameters: BTreeMap<String, String>,
    /// As in the request, and as modified since.
    #[prost(btree_map = "string, string", tag = "7")]
    pub mutable_parameters: BTreeMap<String, String>,
    /// As in the request.
    #[prost(message, repeated, tag = "8")]
    pub capabilities: Vec<VolumeCapability>,
}

/// A snapshot.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeptSnapshot {
    /// The name in `CreateSnapshot`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What is answered.
    #[prost(message, required, tag = "2")]
    pub snapshot: Snapshot,
    /// As in the request.
    #[prost(btree_map = "string, string", tag = "3")]
    pub parameters: BTreeMap<String, String>,
}

/// Snapshots of several volumes, taken at one moment.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeptGroup {
    #[prost(string, tag = "1")]
    id: String,
    /// The name in `CreateVolumeGroupSnapshot`.
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    members: Vec<KeptSnapshot>,
}

/// A volume at a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Publication {
    /// The volume's id.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The node's id.
    #[prost(string, tag = "2")]
    pub node_id: String,
    /// As in the request.
    #[prost(bool, tag = "3")]
    pub readonly: bool,
    /// Number of the access mode.
    #[prost(int32, tag = "4")]
    pub mode: i32,
}

/// A line of the journal.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Record {
    #[prost(oneof = "Change", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub(super) change: Option<Change>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Change {
    /// New, or changed.
    #[prost(message, tag = "1")]
    Volume(KeptVolume),
    #[prost(string, tag = "2")]
    VolumeGone(String),
    #[prost(message, tag = "3")]
    Snapshot(KeptSnapshot),
    #[prost(string, tag = "4")]
    SnapshotGone(String),
    #[prost(message, tag = "5")]
    Published(Publication),
    #[prost(message, tag = "6")]
    Unpublished(Publication),
    #[prost(message, tag = "7")]
    Group(KeptGroup),
    #[prost(string, tag = "8")]
    GroupGone(String),
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) volumes: BTreeMap<String, KeptVolume>,
    pub(super) snapshots: BTreeMap<String, KeptSnapshot>,
    /// By volume and node.
    pub(super) publications: BTreeMap<(String, String), Publication>,
    /// What was deleted, for a fault that does not forget.
    pub(super) deleted_volumes: Vec<String>,
    pub(super) deleted_snapshots: Vec<KeptSnapshot>,
    pub(super) longest_id: usize,
    /// Ids by name.
    volume_names: BTreeMap<String, String>,
    snapshot_names: BTreeMap<String, String>,
    /// By id.
    groups: BTreeMap<String, KeptGroup>,
    made: u64,
    journal: Option<Journal>,

    // The node's part, which ends with its machine and is not written down.
    pub(super) staged: BTreeSet<(String, String)>,
    /// Volume id by target path.
    pub(super) targets: BTreeMap<String, String>,
    /// How volumes were published on the node.
    pub(super) seen: BTreeSet<Access>,
}

fn missing(what: &str, id: &str) -> Status {
    Status::not_found(format!("there is no {what} `{id}`"))
}

impl State {
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        let (journal, changes) = Journal::read(directory)?;
        let mut state = Self::default();
        for change in changes {
            state.apply(change);
        }
        state.journal = Some(journal);
        Ok(state)
    }

    /// Makes a change last, then makes it.
    fn change(&mut self, change: Change) -> Result<(), Status> {
        if let Some(journal) = &mut self.journal {
            let written = journal.append(change.clone());
            written.map_err(|error| Status::internal(format!("the journal: {error}")))?;
        }
        self.apply(change);
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        self.made += 1;
        match change {
            Change::Volume(volume) => {
                self.longest_id = self.longest_id.max(volume.id.len());
                self.volume_names
                    .insert(volume.name.clone(), volume.id.clone());
                self.volumes.insert(volume.id.clone(), volume);
            }
            Change::VolumeGone(id) => {
                if let Some(volume) = self.volumes.remove(&id) {
                    self.volume_names.remove(&volume.name);
                }
                self.deleted_volumes.push(id);
            }
            Change::Snapshot(kept) => {
                let id = kept.snapshot.snapshot_id.clone();
                self.snapshot_names.insert(kept.name.clone(), id.clone());
                self.snapshots.insert(id, kept);
            }
            Change::SnapshotGone(id) => {
                if let Some(kept) = self.snapshots.remove(&id) {
                    self.snapshot_names.remove(&kept.name);
                    self.deleted_snapshots.push(kept);
                }
            }
            Change::Published(publication) => {
                let key = (publication.volume_id.clone(), publication.node_id.clone());
                self.publications.insert(key, publication);
            }
            Change::Unpublished(publication) => {
                let key = (publication.volume_id, publication.node_id);
                self.publications.remove(&key);
            }
            Change::Group(group) => {
                for member in &group.members {
                    let id = member.snapshot.snapshot_id.clone();
                    self.snapshots.insert(id, member.clone());
                }
                self.groups.insert(group.id.clone(), group);
            }
            Change::GroupGone(id) => {
                let gone = self.groups.remove(&id);
                for member in gone.into_iter().flat_map(|group| group.members) {
                    self.snapshots.remove(&member.snapshot.snapshot_id);
                }
            }
        }
    }

    /// Every change has a number, so ids are not used twice, not even after a restart.
    fn new_id(&self, kind: &str) -> String {
        format!("{kind}-{}", self.made + 1)
    }

    pub(super) fn left(&self) -> Vec<String> {
        let volumes = self.volumes.keys().map(|id| format!("volume {id}"));
        let snapshots = self.snapshots.keys().map(|id| format!("snapshot {id}"));
        let published = self.publications.keys();
        let published = published.map(|(id, node)| format!("published {id} to {node}"));
        let staged = self.staged.iter().map(|(id, _)| format!("staged {id}"));
        let targets = self.targets.keys().map(|path| format!("target {path}"));
        let left = volumes.chain(snapshots).chain(published);
        left.chain(staged).chain(targets).collect()
    }
}

/// A page and the token of the next one. A token is the number of entries before it.
pub(super) fn page<T>(
    mut all: Vec<T>,
    token: &str,
    max_entries: i32,
) -> Result<(Vec<T>, String), Status> {
    let start = match token {
        "" => 0,
        token => token.parse().unwrap_or(usize::MAX),
    };
    if start > all.len() {
        return Err(Status::aborted("no token of ours"));
    }
    let mut rest = all.split_off(start);
    let length = usize::try_from(max_entries).unwrap_or_default();
    if length == 0 || rest.len() <= length {
        return Ok((rest, String::new()));
    }
    rest.truncate(length);
    Ok((rest, (start + length).to_string()))
}
