//! Contents of snapshots of this driver, single ones and groups, and the classes they are made with.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_api::snapshot::names::{
    ContentNames, GROUP_HANDLE, GROUP_SNAPSHOT, MANAGED_BY, SNAPSHOT,
};
use stowage_kubernetes::store::Cached;

use super::wire::{
    ContentSpec, ContentStatus, WireContent, WireGroupClass, WireGroupContent, WireSnapshotClass,
};

/// Which of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// VolumeSnapshotContent.
    Single,
    /// VolumeGroupSnapshotContent.
    Group,
}

/// A VolumeSnapshotContent or VolumeGroupSnapshotContent of this driver.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "marks on an object, each there or not"
)]
pub struct Content {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The user's object.
    pub(crate) owner: Owner,
    pub(crate) class: Option<String>,
    /// The snapshot goes with the content.
    pub(crate) delete: bool,
    pub(crate) source: Source,
    /// The node whose sidecar is to deal with it.
    pub(crate) node: Option<String>,
    /// The snapshot is made and deleted with its group.
    pub(crate) member: bool,
    pub(crate) being_created: bool,
    pub(crate) being_deleted: bool,
    pub(crate) secret: Option<SecretReference>,
    /// It has annotations, whatever they are: a patch that adds one must know.
    pub(crate) annotated: bool,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
    pub(crate) state: State,
}

/// The user's object that a content belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Empty while nobody has bound the two.
    pub(crate) uid: String,
}

/// What the driver is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Volumes to take snapshots of: one, or those of a group.
    Volumes(Vec<String>),
    /// What exists already; of a group also the members.
    Existing {
        handle: String,
        members: Vec<String>,
    },
    /// Nothing, or both: nothing can be done.
    Unclear,
}

/// What the status says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Of the snapshot, or of the group.
    pub(crate) handle: Option<String>,
    pub(crate) ready: bool,
    pub(crate) error: Option<String>,
    /// Of a group.
    pub(crate) members: Vec<String>,
    /// Of a member: its group.
    pub(crate) group: Option<String>,
}

/// A VolumeSnapshotClass or VolumeGroupSnapshotClass of this driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotClass {
    pub(crate) name: String,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Kind {
    pub(crate) fn names(self) -> &'static ContentNames {
        match self {
            Self::Single => &SNAPSHOT,
            Self::Group => &GROUP_SNAPSHOT,
        }
    }
}

impl Content {
    /// Reads a content. `None`: it is another driver's.
    pub(crate) fn read_single(wire: WireContent, driver: &str) -> Option<Self> {
        Self::read(
            Kind::Single,
            wire.metadata,
            wire.spec,
            wire.status.unwrap_or_default(),
            driver,
        )
    }

    /// The same of a group.
    pub(crate) fn read_group(wire: WireGroupContent, driver: &str) -> Option<Self> {
        Self::read(
            Kind::Group,
            wire.metadata,
            wire.spec,
            wire.status.unwrap_or_default(),
            driver,
        )
    }

    pub(crate) fn read(
        kind: Kind,
        metadata: ObjectMeta,
        spec: ContentSpec,
        status: ContentStatus,
        driver: &str,
    ) -> Option<Self> {
        if spec.driver != driver {
            return None;
        }
        let names = kind.names();
        let annotations = metadata.annotations.unwrap_or_default();
        let has = |key: &str| annotations.contains_key(key);
        let secret = match (
            annotations.get(names.secret_name),
            annotations.get(names.secret_namespace),
        ) {
            (Some(name), Some(namespace)) => Some(SecretReference {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
            }),
            _ => None,
        };
        let owner = spec.owner.unwrap_or_default();
        Some(Self {
            kind,
            name: metadata.name?,
            uid: metadata.uid?,
            owner: Owner {
                namespace: owner.namespace.unwrap_or_default(),
                name: owner.name.unwrap_or_default(),
                uid: owner.uid.unwrap_or_default(),
            },
            class: spec.class,
            delete: spec.deletion_policy == "Delete",
            source: spec.source.into(),
            node: metadata
                .labels
                .and_then(|mut labels| labels.remove(MANAGED_BY)),
            member: has(GROUP_HANDLE),
            being_created: has(names.being_created),
            being_deleted: has(names.being_deleted),
            secret,
            annotated: !annotations.is_empty(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            state: State::read(kind, status),
        })
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        let own = self.kind.names().finalizer;
        self.finalizers.iter().any(|name| name == own)
    }
}

impl State {
    fn read(kind: Kind, status: ContentStatus) -> Self {
        let (handle, group) = match kind {
            Kind::Single => (status.snapshot_handle, status.volume_group_snapshot_handle),
            Kind::Group => (status.volume_group_snapshot_handle, None),
        };
        let mut members = status.volume_snapshot_info_list;
        if members.is_empty() {
            members = status.volume_snapshot_handle_pair_list;
        }
        let members = members.into_iter();
        Self {
            handle,
            ready: status.ready_to_use,
            error: status.error.and_then(|error| error.message),
            members: members.map(|member| member.snapshot_handle).collect(),
            group,
        }
    }
}

impl SnapshotClass {
    /// Reads a class. `None`: it is another driver's.
    pub(crate) fn read_single(wire: WireSnapshotClass, driver: &str) -> Option<Self> {
        (wire.driver == driver).then_some(Self {
            name: wire.metadata.name?,
            parameters: wire.parameters,
        })
    }

    /// The same of a class for groups.
    pub(crate) fn read_group(wire: WireGroupClass, driver: &str) -> Option<Self> {
        (wire.driver == driver).then_some(Self {
            name: wire.metadata.name?,
            parameters: wire.parameters,
        })
    }
}

impl Cached for Content {
    fn key(&self) -> &str {
        &self.name
    }
}

impl Cached for SnapshotClass {
    fn key(&self) -> &str {
        &self.name
    }
}
