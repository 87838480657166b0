//! What the driver has, and the rules for changing it.

use std::collections::{BTreeMap, BTreeSet};

use stowage_csi::proto::csi::{
    ControllerPublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    ListSnapshotsRequest, Snapshot, Volume, VolumeContentSource,
    volume_content_source::Type as Source,
};
use tonic::Status;

use super::{Fault, LIMIT, NODE};

/// How volumes were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Mount,
    Block,
}

#[derive(Debug, Default)]
pub struct State {
    pub volumes: BTreeMap<String, Kept>,
    pub snapshots: BTreeMap<String, (String, Snapshot)>,
    /// Volume ids by node and readonly.
    pub attached: BTreeMap<String, bool>,
    pub staged: BTreeSet<(String, String)>,
    /// Volume id and access mode by target path.
    pub targets: BTreeMap<String, (String, i32)>,
    /// How volumes were published on the node.
    pub seen: BTreeSet<Access>,
    /// What came as secrets of `CreateVolume`.
    pub secrets: BTreeMap<String, String>,
    /// What was deleted, for a fault that does not forget.
    pub deleted_volumes: Vec<String>,
    pub deleted_snapshots: Vec<Snapshot>,
    made: u64,
}

/// A volume.
#[derive(Clone, Debug)]
pub struct Kept {
    name: String,
    pub size: i64,
    source: Option<VolumeContentSource>,
}

fn missing(what: &str, id: &str) -> Status {
    Status::not_found(format!("there is no {what} `{id}`"))
}

impl State {
    pub fn left(&self) -> Vec<String> {
        let volumes = self.volumes.keys().map(|id| format!("volume {id}"));
        let snapshots = self.snapshots.keys().map(|id| format!("snapshot {id}"));
        let attached = self.attached.keys().map(|id| format!("attached {id}"));
        let staged = self.staged.iter().map(|(id, _)| format!("staged {id}"));
        let targets = self.targets.keys().map(|path| format!("target {path}"));
        let left = volumes.chain(snapshots).chain(attached);
        left.chain(staged).chain(targets).collect()
    }

    fn new_id(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-{}", self.made)
    }

    pub fn find(&self, id: &str) -> Result<&Kept, Status> {
        self.volumes.get(id).ok_or_else(|| missing("volume", id))
    }

    pub fn create_volume(
        &mut self,
        request: CreateVolumeRequest,
        fault: Option<Fault>,
    ) -> Result<Volume, Status> {
        let range = request.capacity_range.unwrap_or_default();
        let size = range.required_bytes.max(1 << 20);
        let known = self.volumes.iter();
        let known = known
            .filter(|_| fault != Some(Fault::NewVolumeEachTime))
            .find(|(_, kept)| kept.name == request.name);
        if let Some((id, kept)) = known {
            let fits = kept.size >= range.required_bytes
                && (range.limit_bytes == 0 || kept.size <= range.limit_bytes);
            if !fits && fault != Some(Fault::AnySizeForAKnownName) {
                return Err(Status::already_exists("the name is taken by another size"));
            }
            return Ok(kept.show(id, fault));
        }
        if fault == Some(Fault::LongNamesRefused) && request.name.len() > 100 {
            return Err(Status::invalid_argument("the name is too long for us"));
        }
        self.check_source(request.volume_content_source.as_ref())?;
        check_mutable(&request.mutable_parameters, fault)?;
        let kept = Kept {
            name: request.name,
            size,
            source: request.volume_content_source,
        };
        let id = self.new_id("vol");
        let volume = kept.show(&id, fault);
        self.volumes.insert(id, kept);
        Ok(volume)
    }

    fn check_source(&self, source: Option<&VolumeContentSource>) -> Result<(), Status> {
        match source.and_then(|source| source.r#type.as_ref()) {
            None => Ok(()),
            Some(Source::Volume(source)) => self.find(&source.volume_id).map(drop),
            Some(Source::Snapshot(source)) => {
                let id = &source.snapshot_id;
                let found = self.snapshots.contains_key(id);
                found.then_some(()).ok_or_else(|| missing("snapshot", id))
            }
        }
    }

    pub fn attach(
        &mut self,
        request: ControllerPublishVolumeRequest,
        fault: Option<Fault>,
    ) -> Result<(), Status> {
        let id = request.volume_id;
        self.find(&id)?;
        if request.node_id != NODE {
            return Err(missing("node", &request.node_id));
        }
        match self.attached.get(&id) {
            Some(_) if fault == Some(Fault::PublishedOnlyOnce) => {
                return Err(Status::already_exists("it is published"));
            }
            Some(readonly) if *readonly != request.readonly => {
                if fault != Some(Fault::AnyReadonly) {
                    return Err(Status::already_exists("it is published otherwise"));
                }
            }
            Some(_) => {}
            None => {
                let full = self.attached.len() >= usize::try_from(LIMIT).expect("a small number");
                if full && fault != Some(Fault::NoLimit) {
                    return Err(Status::resource_exhausted("the node is full"));
                }
                self.attached.insert(id, request.readonly);
            }
        }
        Ok(())
    }

    pub fn create_snapshot(
        &mut self,
        request: CreateSnapshotRequest,
        fault: Option<Fault>,
    ) -> Result<Snapshot, Status> {
        let size = self.find(&request.source_volume_id)?.size;
        if fault == Some(Fault::LongNamesRefused) && request.name.len() > 100 {
            return Err(Status::invalid_argument("the name is too long for us"));
        }
        let known = self.snapshots.values();
        let known = known
            .filter(|_| fault != Some(Fault::NewSnapshotEachTime))
            .find(|(name, _)| *name == request.name);
        if let Some((_, snapshot)) = known {
            let same = snapshot.source_volume_id == request.source_volume_id;
            if !same && fault != Some(Fault::AnySourceForAKnownName) {
                return Err(Status::already_exists(
                    "the name is taken by another source",
                ));
            }
            return Ok(snapshot.clone());
        }
        let id = self.new_id("snap");
        let time = prost_types::Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        };
        let snapshot = Snapshot {
            size_bytes: size,
            snapshot_id: id.clone(),
            source_volume_id: request.source_volume_id,
            creation_time: (fault != Some(Fault::SnapshotWithoutTime)).then_some(time),
            ready_to_use: fault != Some(Fault::NeverReadyToUse),
            ..Default::default()
        };
        self.snapshots.insert(id, (request.name, snapshot.clone()));
        Ok(snapshot)
    }

    /// A page of snapshots and the token of the next one. A token is the number of snapshots before it.
    pub fn list_snapshots(
        &self,
        request: &ListSnapshotsRequest,
        fault: Option<Fault>,
    ) -> Result<(Vec<Snapshot>, String), Status> {
        let wanted = |snapshot: &&Snapshot| {
            let (id, source) = (&request.snapshot_id, &request.source_volume_id);
            let matches = (id.is_empty() || *id == snapshot.snapshot_id)
                && (source.is_empty() || *source == snapshot.source_volume_id);
            matches || fault == Some(Fault::SnapshotFilterIgnored)
        };
        let all = self.snapshots.values().map(|(_, snapshot)| snapshot);
        let mut all: Vec<_> = all.filter(wanted).cloned().collect();
        if fault == Some(Fault::NewSnapshotsNotListed) {
            all.clear();
        }
        if fault == Some(Fault::DeletedSnapshotsListed) {
            all.extend(self.deleted_snapshots.iter().cloned());
        }
        let start = match request.starting_token.as_str() {
            "" => 0,
            _ if fault == Some(Fault::TokenIgnored) => 0,
            token => token
                .parse()
                .map_err(|_| Status::aborted("no token of ours"))?,
        };
        let mut rest = all.split_off(start);
        let page = usize::try_from(request.max_entries).unwrap_or_default();
        let is_last = page == 0 || rest.len() <= page || fault == Some(Fault::PagesTooLong);
        if is_last {
            return Ok((rest, String::new()));
        }
        rest.truncate(page);
        let token = match fault {
            Some(Fault::NoNextToken) => String::new(),
            _ => (start + page).to_string(),
        };
        Ok((rest, token))
    }
}

pub fn check_mutable(
    parameters: &BTreeMap<String, String>,
    fault: Option<Fault>,
) -> Result<(), Status> {
    if fault == Some(Fault::MutableParametersRefused) {
        return Err(Status::invalid_argument("no parameter is good enough"));
    }
    match parameters.keys().find(|key| *key != "tier") {
        Some(key) if fault != Some(Fault::AnyMutableParameter) => Err(Status::invalid_argument(
            format!("there is no parameter `{key}`"),
        )),
        _ => Ok(()),
    }
}

impl Kept {
    pub fn show(&self, id: &str, fault: Option<Fault>) -> Volume {
        let content_source = match fault {
            Some(Fault::SourceNotNamed) => None,
            Some(Fault::WrongSourceNamed) => Some(VolumeContentSource::default()),
            _ => self.source.clone(),
        };
        let capacity_bytes = match fault {
            Some(Fault::VolumeTooSmall) => self.size / 2,
            _ => self.size,
        };
        let volume_id = match fault {
            Some(Fault::VolumeWithoutId) => String::new(),
            _ => id.to_owned(),
        };
        Volume {
            capacity_bytes,
            volume_id,
            content_source,
            ..Default::default()
        }
    }
}
