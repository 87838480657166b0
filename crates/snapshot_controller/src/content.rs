//! Contents of all drivers, as far as they are read.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use stowage_api::snapshot::{
    DeletionPolicy, VolumeGroupSnapshotContent, VolumeSnapshotContent, VolumeSnapshotError,
    VolumeSnapshotInfo,
};
use stowage_kubernetes::store::Cached;

use crate::cluster::Scope;
use crate::request::{Kind, Request, by};

/// A VolumeSnapshotContent or VolumeGroupSnapshotContent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The request it is for, as `namespace/name`.
    pub(crate) owner: String,
    /// Empty while the two are not bound.
    pub(crate) owner_uid: String,
    pub(crate) class: Option<String>,
    pub(crate) policy: DeletionPolicy,
    pub(crate) driver: String,
    pub(crate) source: Origin,
    /// What exists, as whoever brought it here says: the handle of the snapshot, or those of the members of a group.
    pub(crate) brought: Vec<String>,
    /// It has annotations, whatever they are: a patch that adds one must know.
    pub(crate) annotated: bool,
    pub(crate) being_deleted: bool,
    pub(crate) made_at: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
    pub(crate) state: State,
}

/// Where the snapshot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Taken,
    Existing,
    /// Nothing, or both.
    Unclear,
}

/// What both kinds have in their specs.
struct Spec {
    owner: ObjectReference,
    class: Option<String>,
    policy: DeletionPolicy,
    driver: String,
    source: Origin,
    brought: Vec<String>,
}

/// What the driver's sidecar says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// It has begun with it: a call to the driver may be under way.
    pub(crate) begun: bool,
    /// Of the snapshot, or of the group.
    pub(crate) handle: Option<String>,
    pub(crate) created: Option<Time>,
    pub(crate) ready: bool,
    pub(crate) size: Option<i64>,
    pub(crate) error: Option<VolumeSnapshotError>,
    /// Of a single snapshot: the group it was taken with.
    pub(crate) group: Option<String>,
    /// Of a group.
    pub(crate) members: Vec<VolumeSnapshotInfo>,
}

impl Content {
    pub(crate) fn read_single(object: VolumeSnapshotContent) -> Option<Self> {
        let spec = object.spec;
        let status = object.status.unwrap_or_default();
        let state = State {
            handle: status.snapshot_handle,
            created: status.creation_time.and_then(at),
            ready: status.ready_to_use == Some(true),
            size: status.restore_size,
            error: status.error,
            group: status.volume_group_snapshot_handle,
            ..State::default()
        };
        let source = origin(
            spec.source.volume_handle.is_some(),
            spec.source.snapshot_handle.is_some(),
        );
        let spec = Spec {
            owner: spec.volume_snapshot_ref,
            class: spec.volume_snapshot_class_name,
            policy: spec.deletion_policy,
            driver: spec.driver,
            source,
            brought: spec.source.snapshot_handle.into_iter().collect(),
        };
        Self::read(Kind::Single, object.metadata, spec, state)
    }

    pub(crate) fn read_group(object: VolumeGroupSnapshotContent) -> Option<Self> {
        let spec = object.spec;
        let status = object.status.unwrap_or_default();
        let state = State {
            handle: status.volume_group_snapshot_handle,
            created: status.creation_time,
            ready: status.ready_to_use == Some(true),
            error: status.error,
            members: status
                .volume_snapshot_info_list
                .or(status.volume_snapshot_handle_pair_list)
                .unwrap_or_default(),
            ..State::default()
        };
        let source = origin(
            spec.source.volume_handles.is_some(),
            spec.source.group_snapshot_handles.is_some(),
        );
        let brought = spec.source.group_snapshot_handles;
        let members = brought.map(|brought| brought.volume_snapshot_handles);
        let spec = Spec {
            owner: spec.volume_group_snapshot_ref,
            class: spec.volume_group_snapshot_class_name,
            policy: spec.deletion_policy,
            driver: spec.driver,
            source,
            brought: members.unwrap_or_default(),
        };
        Self::read(Kind::Group, object.metadata, spec, state)
    }

    fn read(kind: Kind, metadata: ObjectMeta, spec: Spec, state: State) -> Option<Self> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let owner = &spec.owner;
        Some(Self {
            kind,
            name: metadata.name?,
            uid: metadata.uid?,
            owner: format!("{}/{}", text(&owner.namespace), text(&owner.name)),
            owner_uid: text(&owner.uid),
            class: spec.class,
            policy: spec.policy,
            driver: spec.driver,
            source: spec.source,
            brought: spec.brought,
            annotated: !annotations.is_empty(),
            being_deleted: annotations.contains_key(kind.names().being_deleted),
            made_at: metadata.creation_timestamp.map(|Time(at)| at),
            finalizers: metadata.finalizers.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            state: State {
                begun: annotations.contains_key(kind.names().being_created),
                ..state
            },
        })
    }

    /// Whether the content says that it is this request's.
    pub(crate) fn is_of(&self, request: &Request) -> bool {
        self.owner == request.key() && self.owner_uid == request.uid
    }

    /// Whether a sidecar has shown that it takes care of it.
    pub(crate) fn is_begun(&self) -> bool {
        self.state != State::default()
    }

    /// The snapshot goes with the content, and the content with the request.
    pub(crate) fn goes_too(&self) -> bool {
        self.policy == DeletionPolicy::Delete
    }

    /// The handles of the snapshots that it stands for: of a group those of its members.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = &str> {
        let own = match self.kind {
            Kind::Single => self.state.handle.as_deref(),
            Kind::Group => None,
        };
        let members = self.state.members.iter();
        let members = members.filter_map(|member| member.snapshot_handle.as_deref());
        let brought = self.brought.iter().map(String::as_str);
        own.into_iter().chain(members).chain(brought)
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        let own = self.kind.names().finalizer;
        self.finalizers.iter().any(|known| known == own)
    }

    /// For events.
    pub(crate) fn reference(&self, scope: Scope) -> ObjectReference {
        let version = scope.version(self.kind);
        self.kind.names().reference(version, &self.name, &self.uid)
    }
}

fn origin(taken: bool, existing: bool) -> Origin {
    match (taken, existing) {
        (true, false) => Origin::Taken,
        (false, true) => Origin::Existing,
        _ => Origin::Unclear,
    }
}

/// Kubernetes' times have whole seconds.
fn at(nanoseconds: i64) -> Option<Time> {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    Timestamp::from_second(seconds).ok().map(Time)
}

impl Cached for Content {
    fn key(&self) -> &str {
        &self.name
    }

    /// By the request it is for, and a member by its group.
    fn groups(&self) -> Vec<String> {
        let group = self.state.group.as_deref().map(by::group_handle);
        std::iter::once(self.owner.clone()).chain(group).collect()
    }
}
