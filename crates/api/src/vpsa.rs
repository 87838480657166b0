//! `storage.zadara.com/v1`: the custom resources of the VPSA driver. All are cluster-scoped.
//!
//! | kind | stands for |
//! |---|---|
//! | [`VscStorageClass`] | a group of arrays that volumes are spread over |
//! | [`Vpsa`] | one array, a member of a class |
//! | [`VscNode`] | a node of the cluster, the template of its Server record on arrays |
//! | [`Volume`] | a volume on an array that the driver made, or took over |
//! | [`ExternalVolume`] | a volume on an array that somebody else made; nothing is ever deleted for it |
//! | [`VolumeAttachment`] | a volume on a node |
//! | [`Snapshot`] | a snapshot of a volume |
//!
//! Spelling, states, columns and short names are those of Zadara's driver, whose objects are adopted as they are; so what
//! it may have left out is optional in these types, and what they do not know is kept. Everything newer is optional.
//! A text that is null or missing is the empty one.

mod array;
mod attachment;
mod class;
mod detached;
mod node;
mod shared;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod volume;

pub use array::{ArrayVersion, Tls, TokenSecretRef, Vpsa, VpsaCounters, VpsaSpec, VpsaStatus};
pub use attachment::{
    BlockAttachment, VolumeAttachment, VolumeAttachmentSpec, VolumeAttachmentStatus,
};
pub use class::{ClassCounters, VscStorageClass, VscStorageClassSpec, VscStorageClassStatus};
pub use detached::DetachedDisk;
pub use node::{BlockAddress, NasAddress, VscNode, VscNodeSpec, VscNodeStatus};
pub use shared::{Capacity, CloneSource, Concealed, Observed, Segments, Unknown, VolumeFlags};
pub use snapshot::{Snapshot, SnapshotSpec, SnapshotStatus};
pub use state::{
    AttachType, AttachmentState, CapacityMode, ClassState, CloneSourceKind, DeletionPolicy,
    IscsiStatus, SnapshotState, VolumeState, VolumeType, VpsaState,
};
pub use volume::{
    BlockVolume, Expansion, ExternalVolume, ExternalVolumeSpec, NasVolume, Volume, VolumeSpec,
    VolumeStatus, VolumeTopology,
};

/// The API group.
pub const GROUP: &str = "storage.zadara.com";
/// Keeps an object until what it stands for is cleaned up on the array.
pub const FINALIZER: &str = "storage.zadara.com/vsc-delete-protection";
/// Annotation of a VPSA: any value that is not empty has its foreign volumes imported as ExternalVolumes.
pub const MANAGE_EXTERNAL_VOLUMES: &str = "storage.zadara.com/vsc-manage-external-volumes";
/// Annotation of a Volume that was somebody else's: its array and its identity there, as `VPSA/volume-00000001`.
pub const ADOPTED: &str = "storage.zadara.com/vsc-adopted";
/// Annotation of a Volume that is to be deleted by force, whatever is seen of it on its array: its identity there, such as
/// `volume-00000001`.
pub const FORCE_DELETE: &str = "storage.zadara.com/vsc-force-delete";
/// Annotation of a Volume that a CSI call asked for: where it can never be made it is deleted again.
pub const REQUESTED: &str = "storage.zadara.com/vsc-requested";

/// On a VSCNode that is lost: since when nothing is attached to it any more.
pub const FENCED: &str = "storage.zadara.com/vsc-fenced";
/// On a VSCNode that was fenced and is ready again: since when nothing of before is left in the cluster. Its node answers.
pub const RELEASED: &str = "storage.zadara.com/vsc-released";
/// On such a VSCNode, by its node: nothing of before is left there either. The value is that of [`RELEASED`] which it answers.
pub const CLEAN: &str = "storage.zadara.com/vsc-clean";
/// On a VSCNode: disks that were detached although its node may have had them in use, as [`DetachedDisk`]s in JSON. Nothing new is
/// attached to it until its node has said that none of them is left there.
pub const DETACHED: &str = "storage.zadara.com/vsc-detached-in-use";
/// On such a VSCNode, by its node: none of them is left there. The value is that of [`DETACHED`] which it answers.
pub const LEFT: &str = "storage.zadara.com/vsc-detached-left";
/// On a VSCNode whose Node is gone, by a person: its machine does not come back, so that it and what bars it may go.
pub const FORGET: &str = "storage.zadara.com/vsc-forget";

/// Begins a secret that Zadara's driver encrypted. It cannot be read without that driver's key, and is reported.
pub const FOREIGN_CIPHER: &str = "AES:";
/// Begins a secret that this driver encrypted (AES-256-GCM).
pub const CIPHER: &str = "AES2:";
