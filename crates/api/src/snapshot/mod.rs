//! Volume snapshots and volume group snapshots, both at version `v1`.
//!
//! The groups belong to the Kubernetes project: names, fields and meaning are theirs and must not be
//! changed here. Each request (`VolumeSnapshot`) is bound to the object that stands for the snapshot on
//! the storage system (`VolumeSnapshotContent`); a binding counts only when each names the other.
//!
//! What the schemas check is limited to what Kubernetes 1.20 understands: types, required fields,
//! "exactly one of", no empty class name. Upstream's definitions also carry CEL rules
//! (`x-kubernetes-validations`) that keep sources immutable. Where a server does not know that key
//! (before 1.23), `kubectl apply` and server-side apply refuse the whole definition, so the rules are
//! left out: whoever reads a source must be prepared for one that has changed.

mod group;
pub mod names;
mod schema;
#[cfg(test)]
mod tests;
mod volume;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use group::{
    GroupSnapshotHandles, VolumeGroupSnapshot, VolumeGroupSnapshotClass,
    VolumeGroupSnapshotClassSpec, VolumeGroupSnapshotContent, VolumeGroupSnapshotContentSource,
    VolumeGroupSnapshotContentSpec, VolumeGroupSnapshotContentStatus, VolumeGroupSnapshotSource,
    VolumeGroupSnapshotSpec, VolumeGroupSnapshotStatus, VolumeSnapshotInfo,
};
pub use volume::{
    VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotClassSpec, VolumeSnapshotContent,
    VolumeSnapshotContentSource, VolumeSnapshotContentSpec, VolumeSnapshotContentStatus,
    VolumeSnapshotSource, VolumeSnapshotSpec, VolumeSnapshotStatus,
};

/// What happens to the snapshot on the storage system when the object that asked for it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    // No doc comments: schemars would turn a commented variant into a `oneOf` branch.
    #[allow(missing_docs)]
    Delete,
    #[allow(missing_docs)]
    Retain,
}

/// The last error seen while a snapshot was being made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeSnapshotError {
    /// When the error was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// What went wrong. Anybody who may read the object sees this text: no secrets in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
