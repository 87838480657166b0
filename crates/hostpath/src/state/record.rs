//! What is written down about a volume or a snapshot.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stowage_host::filesystem::FsKind;

use super::Area;
use crate::id::{Id, Key, Kind, NodeId};
use crate::usage::Access;

/// The form of the records. One that is not understood is left alone.
const VERSION: u32 = 1;

/// Something with a record.
pub(crate) trait Record: Serialize + DeserializeOwned {
    const SHELF: Area;
    const KIND: Kind;

    fn id(&self) -> &str;
    fn name(&self) -> &str;
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeRecord {
    pub(crate) id: String,
    /// As the caller of `CreateVolume` called it.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    /// What it is formatted with when it is first staged; of a raw block volume the default, for copies of it.
    #[serde(with = "filesystem_name")]
    pub(crate) filesystem: FsKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Source>,
    pub(crate) created_unix_ms: u64,
    /// It has held its filesystem: if there is none any more, that is a loss and no reason to make a new one. Records of
    /// volumes that older drivers made do not have it until they are staged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) formatted: bool,
    /// Its devices pass the page cache of the image's filesystem by.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) direct_io: bool,
    /// Nodes it is attached to, if attaching is enabled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) attached: BTreeMap<NodeId, Attachment>,
}

/// How a volume is attached to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) read_only: bool,
}

/// What a volume was copied from. It may be gone by now: copies stand for themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    Snapshot(String),
    Volume(String),
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotRecord {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) source_volume: String,
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    #[serde(with = "filesystem_name")]
    pub(crate) filesystem: FsKind,
    pub(crate) created_unix_ms: u64,
    /// The volume had held its filesystem by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) formatted: bool,
    /// The group it was taken with, and goes with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
}

impl Record for VolumeRecord {
    const SHELF: Area = Area::Volumes;
    const KIND: Kind = Kind::Volume;

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Record for SnapshotRecord {
    const SHELF: Area = Area::Snapshots;
    const KIND: Kind = Kind::Snapshot;

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Now, as records have it.
pub(crate) fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// A moment of a record.
pub(crate) fn from_unix_ms(moment: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(moment)
}

#[derive(Serialize, Deserialize)]
struct Envelope<R> {
    version: u32,
    #[serde(flatten)]
    record: R,
}

#[derive(Serialize)]
struct EnvelopeRef<'a, R> {
    version: u32,
    #[serde(flatten)]
    record: &'a R,
}

pub(super) fn encode<R: Record>(record: &R) -> Vec<u8> {
    let envelope = EnvelopeRef {
        version: VERSION,
        record,
    };
    serde_json::to_vec_pretty(&envelope).expect("records have string keys and no foreign types")
}

/// Reads a record and makes sure that it is the one that belongs in this file.
pub(super) fn parse<R: Record>(content: &[u8], key: &Key) -> Result<R, String> {
    let Envelope::<R> { version, record } =
        serde_json::from_slice(content).map_err(|error| error.to_string())?;
    if version != VERSION {
        return Err(format!(
            "it has version {version}, but this driver supports {VERSION}"
        ));
    }
    let of_this_file = Id::parse(R::KIND, record.id()).is_some_and(|id| id.key == *key);
    if !of_this_file || Key::of_name(record.name()) != *key {
        return Err(format!("it belongs to `{}`", record.id()));
    }
    Ok(record)
}

mod filesystem_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use stowage_host::filesystem::FsKind;

    // Serde hands over a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(kind: &FsKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FsKind, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
