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
