//! Making, showing, growing and removing volumes.

use std::collections::BTreeMap;

use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type as Source};
use stowage_csi::proto::csi::{
    CapacityRange, CreateVolumeRequest, Volume, VolumeCapability, VolumeContentSource,
};
use tonic::Status;

use super::{Change, KeptVolume, State, missing};
use crate::fault::{Fault, Faults};
use crate::room::Rooms;

const SMALLEST: i64 = 1 << 20;
const LONG_ID: usize = 10_000;

impl State {
    pub(crate) fn find(&self, id: &str) -> Result<&KeptVolume, Status> {
        self.volumes.get(id).ok_or_else(|| missing("volume", id))
    }

    pub(crate) fn named(&self, name: &str) -> Option<&KeptVolume> {
        self.volumes.get(self.volume_names.get(name)?)
    }

    /// Called twice with the same name: the same volume, or `ALREADY_EXISTS` if it is not what is asked for.
    pub(crate) fn create_volume(
        &mut self,
        request: CreateVolumeRequest,
        rooms: &Rooms,
        faults: &Faults,
    ) -> Result<Volume, Status> {
        let known = self.named(&request.name);
        if let Some(kept) = known.filter(|_| !faults.has(Fault::NewVolumeEachTime)) {
            return match kept.conflict(&request) {
                Some(why) if !faults.has(Fault::AnySizeForAKnownName) => {
                    Err(Status::already_exists(why))
                }
                _ => Ok(kept.show(faults)),
            };
        }
        if faults.has(Fault::LongNamesRefused) && request.name.len() > 100 {
            return Err(Status::invalid_argument("the name is too long for us"));
        }
        let source_size = self.source_size(request.volume_content_source.as_ref())?;
        check_mutable(&request.mutable_parameters, faults)?;
        let size = choose_size(request.capacity_range.unwrap_or_default(), source_size)?;
        let place = rooms.choose(request.accessibility_requirements.as_ref(), size)?;
        let mut id = self.new_id("vol");
        if faults.has(Fault::VolumeIdTooLong) {
            id = format!("{id:x<LONG_ID$}");
        }
        let kept = KeptVolume {
            id,
            name: request.name,
            size,
            source: request.volume_content_source,
            place,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
            capabilities: request.volume_capabilities,
        };
        let volume = kept.show(faults);
        self.change(Change::Volume(kept))?;
        Ok(volume)
    }

    fn source_size(&self, source: Option<&VolumeContentSource>) -> Result<i64, Status> {
        match source.and_then(|source| source.r#type.as_ref()) {
            None => Ok(0),
            Some(Source::Volume(source)) => Ok(self.find(&source.volume_id)?.size),
            Some(Source::Snapshot(source)) => {
                let id = &source.snapshot_id;
                let found = self.snapshots.get(id);
                Ok(found
                    .ok_or_else(|| missing("snapshot", id))?
                    .snapshot
                    .size_bytes)
            }
        }
    }

    /// Called twice: the second call finds nothing, which is success.
    pub(crate) fn delete_volume(&mut self, id: &str, faults: &Faults) -> Result<(), Status> {
        if faults.has(Fault::MissingVolumeCannotBeDeleted) {
            self.find(id)?;
        }
        if faults.has(Fault::VolumeCannotBeDeleted) && self.volumes.contains_key(id) {
            return Err(Status::internal("it does not go"));
        }
        if faults.has(Fault::VolumeStaysWhenDeleted) || !self.volumes.contains_key(id) {
            return Ok(());
        }
        if self.is_published(id) {
            return Err(Status::failed_precondition("it is published"));
        }
        self.forget_volume(id)
    }

    pub(crate) fn forget_volume(&mut self, id: &str) -> Result<(), Status> {
        self.change(Change::VolumeGone(id.to_owned()))
    }

    /// Called twice: it has that size already. A volume never shrinks.
    pub(crate) fn expand_volume(
        &mut self,
        id: &str,
        range: CapacityRange,
        rooms: &Rooms,
    ) -> Result<i64, Status> {
        let mut kept = self.find(id)?.clone();
        if kept.size < range.required_bytes {
            rooms.at(kept.place.as_ref()).fits(range.required_bytes)?;
            kept.size = range.required_bytes;
            self.change(Change::Volume(kept.clone()))?;
        }
        if range.limit_bytes != 0 && kept.size > range.limit_bytes {
            return Err(Status::out_of_range("it is larger than the limit"));
        }
        Ok(kept.size)
    }

    /// Called twice: it has those parameters already.
    pub(crate) fn modify_volume(
        &mut self,
        id: &str,
        parameters: BTreeMap<String, String>,
        faults: &Faults,
    ) -> Result<(), Status> {
        let mut kept = self.find(id)?.clone();
        check_mutable(&parameters, faults)?;
        kept.mutable_parameters.extend(parameters);
        self.change(Change::Volume(kept))
    }
}

fn choose_size(range: CapacityRange, source: i64) -> Result<i64, Status> {
    let size = range.required_bytes.max(SMALLEST).max(source);
    if range.limit_bytes != 0 && size > range.limit_bytes {
        return Err(Status::out_of_range("no volume is that small"));
    }
    Ok(size)
}

/// The only parameter that can be changed is `tier`.
pub(crate) fn check_mutable(
    parameters: &BTreeMap<String, String>,
    faults: &Faults,
) -> Result<(), Status> {
    if faults.has(Fault::MutableParametersRefused) {
        return Err(Status::invalid_argument("no parameter is good enough"));
    }
    match parameters.keys().find(|key| *key != "tier") {
        Some(key) if !faults.has(Fault::AnyMutableParameter) => Err(Status::invalid_argument(
            format!("there is no parameter `{key}`"),
        )),
        _ => Ok(()),
    }
}

impl KeptVolume {
    /// What this volume has of another kind than a request for the same name.
    fn conflict(&self, request: &CreateVolumeRequest) -> Option<&'static str> {
        let range = request.capacity_range.unwrap_or_default();
        let fits = self.size >= range.required_bytes
            && (range.limit_bytes == 0 || self.size <= range.limit_bytes);
        if !fits {
            return Some("the name is taken by another size");
        }
        if self.source != request.volume_content_source {
            return Some("the name is taken by another source");
        }
        if self.parameters != request.parameters {
            return Some("the name is taken by other parameters");
        }
        let is_block = |capabilities: &[VolumeCapability]| {
            use stowage_csi::proto::csi::volume_capability::AccessType::Block;
            let mut kinds = capabilities.iter().map(|one| &one.access_type);
            kinds.any(|kind| matches!(kind, Some(Block(_))))
        };
        if is_block(&self.capabilities) != is_block(&request.volume_capabilities) {
            return Some("the name is taken by another access type");
        }
        let wanted = request.accessibility_requirements.as_ref();
        let requisite = wanted.map_or(&[] as &[_], |wanted| &wanted.requisite);
        match &self.place {
            Some(place) if !requisite.is_empty() && !requisite.contains(place) => {
                Some("the name is taken in another place")
            }
            _ => None,
        }
    }

    pub(crate) fn show(&self, faults: &Faults) -> Volume {
        let content_source = if faults.has(Fault::SourceNotNamed) {
            None
        } else if faults.has(Fault::WrongSourceNamed) {
            let snapshot_id = "another".to_owned();
            Some(VolumeContentSource {
                r#type: Some(Source::Snapshot(SnapshotSource { snapshot_id })),
            })
        } else {
            self.source.clone()
        };
        let shrunk = i64::from(faults.has(Fault::VolumeTooSmall)) + 1;
        let volume_id = if faults.has(Fault::VolumeWithoutId) {
            String::new()
        } else {
            self.id.clone()
        };
        Volume {
            capacity_bytes: self.size / shrunk,
            volume_id,
            volume_context: [("made-for".to_owned(), self.name.clone())].into(),
            content_source,
            accessible_topology: self.place.iter().cloned().collect(),
        }
    }
}
