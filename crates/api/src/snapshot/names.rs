//! Finalizers, annotations, labels and lease of the snapshot controllers.
//!
//! They are written by the two controllers of the Kubernetes project too, and either may take over from the other:
//! not a byte of them is ours to change.

use k8s_openapi::api::core::v1::ObjectReference;

/// Which node's sidecar is to deal with a content, where there is one on every node.
pub const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";
/// The lease of the cluster-wide controller.
pub const CONTROLLER_LEASE: &str = "snapshot-controller-leader";
/// The value of annotations that say yes by being there.
pub const YES: &str = "yes";

/// Keeps a claim while a snapshot of it is being taken.
pub const CLAIM_AS_SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Keeps a VolumeSnapshot while a volume is being restored from it.
pub const SNAPSHOT_AS_SOURCE: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a VolumeSnapshot while its content is being deleted.
pub const SNAPSHOT_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a VolumeSnapshot while the group it is a member of exists.
pub const SNAPSHOT_IN_GROUP: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
/// Keeps a VolumeGroupSnapshot while its content is being deleted.
pub const GROUP_BOUND: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
/// The group snapshot that the snapshot behind a content is a member of: it was made with its group, and goes with it.
pub const GROUP_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";

/// The one version of single snapshots that is used.
pub const SNAPSHOT_V1: &str = "snapshot.storage.k8s.io/v1";
/// The version in which the members of a group are pairs of handles, `volumeSnapshotHandlePairList`, and nothing more.
pub const GROUP_V1BETA1: &str = "groupsnapshot.storage.k8s.io/v1beta1";

/// The names around one of the two kinds of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentNames {
    /// Group and versions of the content and of what users write, the best first.
    pub versions: &'static [&'static str],
    /// Its kind.
    pub kind: &'static str,
    /// Finalizer: keeps the content until its snapshot is deleted.
    pub finalizer: &'static str,
    /// Annotation: the driver was asked to make the snapshot, and has given no final answer.
    pub being_created: &'static str,
    /// Annotation: the user's object is being deleted.
    pub being_deleted: &'static str,
    /// Annotation: the secret that makes and deletes the snapshot.
    pub secret_name: &'static str,
    /// Annotation: its namespace.
    pub secret_namespace: &'static str,
    /// Annotation of the class that is used where none is named.
    pub default_class: &'static str,
    /// First part of the names of contents that are made for a user's object.
    pub prefix: &'static str,
}

impl ContentNames {
    /// A content as events refer to it, in the version that is used.
    pub fn reference(&self, version: &str, name: &str, uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some(version.to_owned()),
            kind: Some(self.kind.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }
}

/// Around VolumeSnapshotContents.
pub const SNAPSHOT: ContentNames = ContentNames {
    versions: &[SNAPSHOT_V1],
    kind: "VolumeSnapshotContent",
    finalizer: "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection",
    being_created: "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
    being_deleted: "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
    secret_name: "snapshot.storage.kubernetes.io/deletion-secret-name",
    secret_namespace: "snapshot.storage.kubernetes.io/deletion-secret-namespace",
    default_class: "snapshot.storage.kubernetes.io/is-default-class",
    prefix: "snapcontent-",
};

/// Around VolumeGroupSnapshotContents.
pub const GROUP_SNAPSHOT: ContentNames = ContentNames {
    versions: &[
        "groupsnapshot.storage.k8s.io/v1",
        "groupsnapshot.storage.k8s.io/v1beta2",
        GROUP_V1BETA1,
    ],
    kind: "VolumeGroupSnapshotContent",
    finalizer: "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection",
    being_created: "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created",
    being_deleted: "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted",
    secret_name: "groupsnapshot.storage.kubernetes.io/deletion-secret-name",
    secret_namespace: "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace",
    default_class: "groupsnapshot.storage.kubernetes.io/is-default-class",
    prefix: "groupsnapcontent-",
};
