//! Volumes.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use stowage_rest::lenient;

use super::super::id::{CgId, PoolId, ServerId, VolumeId};
use super::time::moment;

/// A volume.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Volume {
    /// Its identity.
    #[serde(rename = "name")]
    pub id: VolumeId,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::text")]
    pub display_name: String,
    /// Its consistency group; none while the volume is being made.
    #[serde(default, rename = "cg_name")]
    pub cg: Option<CgId>,
    /// Its pool; none while the volume is being made.
    #[serde(default, rename = "pool_name")]
    pub pool: Option<PoolId>,
    /// In the array's words: `Available`, `In-use`, or why it is neither.
    #[serde(default, deserialize_with = "lenient::text")]
    pub status: String,
    /// How large it is, in GB.
    #[serde(default, deserialize_with = "lenient::number")]
    pub virtual_capacity: u64,
    /// How it is reached.
    #[serde(default)]
    pub data_type: DataType,
    /// The servers it is attached to.
    #[serde(default, rename = "server_ext_names", deserialize_with = "servers")]
    pub servers: Vec<ServerId>,
    /// Where a share is, such as `10.10.10.10:/export/name`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub nfs_export_path: String,
    /// Whether it has snapshots.
    #[serde(default, deserialize_with = "lenient::switch")]
    pub has_snapshots: bool,
    /// Whether a share grows by itself.
    #[serde(default, deserialize_with = "lenient::switch")]
    pub autoexpand: bool,
    /// Whether data is encrypted.
    #[serde(default, deserialize_with = "lenient::switch")]
    pub encryption: bool,
    /// What people say about it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub comment: String,
    /// When it was made.
    #[serde(default, deserialize_with = "moment")]
    pub created_at: Option<Timestamp>,
}

impl Volume {
    /// Whether it can be used.
    pub fn is_usable(&self) -> bool {
        ["available", "in-use"]
            .iter()
            .any(|status| self.status.eq_ignore_ascii_case(status))
    }
}

/// How a volume is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataType {
    /// A disk over iSCSI.
    Block,
    /// A share over NFS.
    FileSystem,
    /// The array has not said, or in words that nobody knows.
    #[default]
    Unknown,
}

impl<'de> Deserialize<'de> for DataType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = lenient::text(from)?.to_ascii_lowercase();
        Ok(match word.as_str() {
            "block" => Self::Block,
            "file-system" | "filesystem" | "file" | "nas" => Self::FileSystem,
            _ => Self::Unknown,
        })
    }
}

/// One text with commas between.
fn servers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ServerId>, D::Error> {
    let text = lenient::text(from)?;
    text.split(',')
        .map(str::trim)
        .filter(|id| !id.is_empty())
        .map(|id| id.parse().map_err(serde::de::Error::custom))
        .collect()
}
