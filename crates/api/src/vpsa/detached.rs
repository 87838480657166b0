//! Disks that were detached from a node which may have had them in use: what controller and node tell each other of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// A disk that was detached from a node which may have had it in use. The array gives its number to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetachedDisk {
    /// The Volume.
    pub volume: String,
    /// The iSCSI target.
    pub target: String,
    /// Its number there.
    pub lun: u64,
    /// Since when.
    pub since: Time,
}

impl DetachedDisk {
    /// All of an annotation. What cannot be read is nobody's disk: it is answered by no node.
    pub fn all_of(annotation: &str) -> Result<Vec<Self>, serde_json::Error> {
        serde_json::from_str(annotation)
    }

    /// As an annotation.
    pub fn annotation(disks: &[Self]) -> Result<String, serde_json::Error> {
        serde_json::to_string(disks)
    }
}
