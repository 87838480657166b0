//! Snapshots, whose fields are written in another way than all others.

use serde::Deserialize;

use super::or_default;

/// `snapshots`.
#[derive(Deserialize, Debug, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    pub(crate) uid: String,
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) access_point: String,
    /// The name of the filesystem.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) filesystem: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) is_writable: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) is_removing: bool,
    /// RFC 3339.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) creation_time: String,
}

impl Snapshot {
    /// Whether it can be a volume, or have one in it: it can be written, and is called as its access point after a prefix.
    /// People change the prefix.
    pub(crate) fn is_volume(&self) -> bool {
        self.is_writable && !self.access_point.is_empty() && self.name.ends_with(&self.access_point)
    }
}
