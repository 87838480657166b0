//! What users ask for: VolumeSnapshots and VolumeGroupSnapshots.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, ObjectMeta, OwnerReference, Time,
};
use stowage_api::snapshot::names::{
    ContentNames, GROUP_BOUND, GROUP_SNAPSHOT, SNAPSHOT, SNAPSHOT_BOUND,
};
use stowage_api::snapshot::{VolumeGroupSnapshot, VolumeSnapshot, VolumeSnapshotError};
use stowage_kubernetes::store::Cached;

use crate::cluster::Scope;

/// Which of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Single,
    Group,
}

/// A VolumeSnapshot or VolumeGroupSnapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) source: Source,
    pub(crate) class: Option<String>,
    /// Of a single snapshot that was taken with its group: the group's uid.
    pub(crate) group: Option<String>,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
    pub(crate) status: Status,
}

/// What is to be taken a snapshot of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Claim(String),
    Claims(Box<LabelSelector>),
    /// The content of something that exists.
    Content(String),
    /// Nothing, or both.
    Unclear,
}

/// What users read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) bound: Option<String>,
    pub(crate) created: Option<Time>,
    pub(crate) ready: Option<bool>,
    pub(crate) size: Option<Quantity>,
    pub(crate) error: Option<VolumeSnapshotError>,
    /// The VolumeGroupSnapshot that a single snapshot is a member of.
    pub(crate) group: Option<String>,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Single, Self::Group];

    pub(crate) fn names(self) -> &'static ContentNames {
        match self {
            Self::Single => &SNAPSHOT,
            Self::Group => &GROUP_SNAPSHOT,
        }
    }

    /// The finalizer that keeps a request while its content is being deleted.
    pub(crate) fn bound_finalizer(self) -> &'static str {
        match self {
            Self::Single => SNAPSHOT_BOUND,
            Self::Group => GROUP_BOUND,
        }
    }
}

impl Request {
    pub(crate) fn read_single(object: VolumeSnapshot) -> Option<Self> {
        let source = object.spec.source;
        let source = match (
            source.persistent_volume_claim_name,
            source.volume_snapshot_content_name,
        ) {
            (Some(claim), None) => Source::Claim(claim),
            (None, Some(content)) => Source::Content(content),
            _ => Source::Unclear,
        };
        let status = object.status.unwrap_or_default();
        let status = Status {
            bound: status.bound_volume_snapshot_content_name,
            created: status.creation_time,
            ready: status.ready_to_use,
            size: status.restore_size,
            error: status.error,
            group: status.volume_group_snapshot_name,
        };
        let class = object.spec.volume_snapshot_class_name;
        Self::read(Kind::Single, object.metadata, source, class, status)
    }

    pub(crate) fn read_group(object: VolumeGroupSnapshot) -> Option<Self> {
        let source = object.spec.source;
        let source = match (source.selector, source.volume_group_snapshot_content_name) {
            (Some(selector), None) => Source::Claims(Box::new(selector)),
            (None, Some(content)) => Source::Content(content),
            _ => Source::Unclear,
        };
        let status = object.status.unwrap_or_default();
        let status = Status {
            bound: status.bound_volume_group_snapshot_content_name,
            created: status.creation_time,
            ready: status.ready_to_use,
            error: status.error,
            ..Status::default()
        };
        let class = object.spec.volume_group_snapshot_class_name;
        Self::read(Kind::Group, object.metadata, source, class, status)
    }

    fn read(
        kind: Kind,
        metadata: ObjectMeta,
        source: Source,
        class: Option<String>,
        status: Status,
    ) -> Option<Self> {
        let owners = metadata.owner_references.unwrap_or_default();
        let group = owners
            .iter()
            .find(|owner| owner.kind == "VolumeGroupSnapshot");
        Some(Self {
            kind,
            namespace: metadata.namespace?,
            name: metadata.name?,
            uid: metadata.uid?,
            source,
            class,
            group: group.map(|group| group.uid.clone()),
            owners,
            finalizers: metadata.finalizers.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            status,
        })
    }

    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The claim of a single snapshot that is taken, not of one that exists.
    pub(crate) fn claim(&self) -> Option<String> {
        match &self.source {
            Source::Claim(name) => Some(format!("{}/{name}", self.namespace)),
            _ => None,
        }
    }

    /// The group that its status names, as `namespace/name`.
    pub(crate) fn group_key(&self) -> Option<String> {
        let name = self.status.group.as_ref();
        name.map(|name| format!("{}/{name}", self.namespace))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status.ready == Some(true)
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|known| known == finalizer)
    }

    /// Whether a change is more than an echo of what we write ourselves. An echo would end the pause after a failure.
    pub(crate) fn is_news(&self, old: &Self) -> bool {
        let mut like_old = self.clone();
        like_old.finalizers.clone_from(&old.finalizers);
        like_old.status.clone_from(&old.status);
        like_old != *old
    }

    /// For events and contents.
    pub(crate) fn reference(&self, scope: Scope) -> ObjectReference {
        let kind = match self.kind {
            Kind::Single => "VolumeSnapshot",
            Kind::Group => "VolumeGroupSnapshot",
        };
        ObjectReference {
            api_version: Some(scope.version(self.kind).to_owned()),
            kind: Some(kind.to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// How requests are grouped, beside their uid.
pub(crate) mod by {
    /// All of a name: one.
    pub(crate) fn name(key: &str) -> String {
        format!("name {key}")
    }
    /// Those that are being taken of a claim.
    pub(crate) fn claim(key: &str) -> String {
        format!("claim {key}")
    }
    /// Members of a group that name it as their owner, by its uid.
    pub(crate) fn group(uid: &str) -> String {
        format!("group {uid}")
    }
    /// Members of a group that only say its name.
    pub(crate) fn group_name(key: &str) -> String {
        format!("group name {key}")
    }
    /// Contents of members, by the group's handle.
    pub(crate) fn group_handle(handle: &str) -> String {
        format!("group handle {handle}")
    }
}

impl Cached for Request {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn groups(&self) -> Vec<String> {
        let mut groups = vec![by::name(&Self::key(self))];
        if let Some(claim) = self.claim()
            && !self.is_ready()
        {
            groups.push(by::claim(&claim));
        }
        groups.extend(match (&self.group, self.group_key()) {
            (Some(uid), _) => Some(by::group(uid)),
            (None, named) => named.map(|key| by::group_name(&key)),
        });
        groups
    }
}
