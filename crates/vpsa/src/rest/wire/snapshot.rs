//! Snapshots.

use jiff::Timestamp;
use serde::Deserialize;
use stowage_rest::lenient;

use super::super::id::{CgId, PoolId, SnapshotId, VolumeId};
use super::time::moment;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Snapshot {
    /// Its identity.
    #[serde(rename = "name")]
    pub id: SnapshotId,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::text")]
    pub display_name: String,
    /// In the array's words: `normal` when it can be used.
    #[serde(default, deserialize_with = "lenient::text")]
    pub status: String,
    /// The consistency group it was taken of.
    #[serde(default, rename = "cg_name")]
    pub cg: Option<CgId>,
    /// The pool it is in.
    #[serde(default, rename = "pool_name")]
    pub pool: Option<PoolId>,
    /// The volume it was taken of; only the list of all snapshots tells.
    #[serde(default, rename = "volume_ext_name")]
    pub volume: Option<VolumeId>,
    /// How large that volume was, in MB; only the list of all snapshots tells, 0 elsewhere.
    #[serde(default, deserialize_with = "lenient::number")]
    pub volume_capacity_mb: u64,
    /// When it was taken.
    #[serde(default, deserialize_with = "moment")]
    pub created_at: Option<Timestamp>,
}

impl Snapshot {
    /// Whether it can be used.
    pub fn is_usable(&self) -> bool {
        ["normal", "available"]
            .iter()
            .any(|status| self.status.eq_ignore_ascii_case(status))
    }
}
