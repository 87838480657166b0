//! What a node's sidecar tells the operator about mounts: `GET /mounts`.
//!
//! The operator's key is never on the node, only its SHA-256: who reads the arguments of a pod cannot ask. Either side may
//! be of another version: a reader ignores fields that it does not know.

use serde::{Deserialize, Serialize};

/// The path of the report.
pub const PATH: &str = "/mounts";
/// The flag with the port on which a node's sidecar tells.
pub const PORT_FLAG: &str = "--mounts-port";

/// The mounts of a driver's volumes on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// The driver.
    pub driver: String,
    /// What is mounted below the kubelet's directory, ordered by path.
    pub mounts: Vec<VolumeMount>,
}

/// A mount of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VolumeMount {
    /// Where, below the kubelet's directory.
    pub path: String,
    /// The uid of the pod it is for; none: it is shared by all pods of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The name of the volume: that of the PersistentVolume, or of an inline volume. None: the kubelet left no note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}
