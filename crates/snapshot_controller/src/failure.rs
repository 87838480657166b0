//! What can go wrong with a request, and what is said about it.

use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::secret_template::{IncompleteReference, TemplateError};

use crate::request::Kind;

/// Why an attempt ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "exactly one source must be named: what to take a snapshot of, or the content of one that exists"
    )]
    Source,
    #[error("{what} `{name}` {wrong}")]
    Unusable {
        what: &'static str,
        name: String,
        wrong: String,
    },
    #[error("the selector matches no claim in namespace `{0}`")]
    NoClaims(String),
    #[error("the selector is not valid: {0}")]
    Selector(String),
    #[error("class `{0}` does not exist: create it, or name another one")]
    NoClass(String),
    // The words that upstream's controller says come first: suites and people look for them.
    #[error(
        "cannot find default {kind} class: no class is named, and driver `{driver}` has no default class; name one, or mark one with the annotation `{mark}: \"true\"`"
    )]
    NoDefault {
        kind: &'static str,
        driver: String,
        mark: &'static str,
    },
    #[error("{} default snapshot classes were found for driver `{driver}`, and no class is named: name one, or leave the mark to one of {}", classes.len(), classes.join(", "))]
    Defaults {
        driver: String,
        classes: Vec<String>,
    },
    #[error(
        "class `{class}` is for driver `{of}`, but volume `{volume}` is of driver `{driver}`: name a class for that driver"
    )]
    OtherDriver {
        class: String,
        of: String,
        volume: String,
        driver: String,
    },
    #[error("class `{class}`: {error}")]
    Secret {
        class: String,
        #[source]
        error: SecretNameError,
    },
    #[error("VolumeSnapshotContent is missing: there is no content `{0}`")]
    ContentMissing(String),
    #[error(
        "content `{0}` cannot be bound: one of the two is for an existing snapshot, and the other is not"
    )]
    Mismatch(String),
    #[error("VolumeSnapshotContent [{0}] is bound to a different snapshot")]
    Misbound(String),
    /// Not a failure of ours: somebody still needs it.
    #[error("Snapshot is being used to restore a PVC")]
    InUse,
    #[error("it belongs to group snapshot `{0}`: delete that, and its members go with it")]
    InGroup(String),
    #[error("it belongs to a group that is being deleted")]
    GroupGoing,
    #[error(
        "it belongs to the group snapshot with the uid `{0}`, which cannot be read: correct what the controller's log says of it"
    )]
    GroupUnreadable(String),
    #[error(
        "the storage system deletes a group with all its members, and there are snapshots of its members that do not belong to it \
         here: delete {} first", list(.0)
    )]
    MembersElsewhere(Vec<String>),
    /// Not a failure of the request: nobody deals with it.
    #[error(
        "no sidecar of driver `{0}` has begun with it: check that the driver's controller runs, that its sidecar takes snapshots, and that \
         the driver can (CREATE_DELETE_SNAPSHOT); it then goes on by itself"
    )]
    NotBegun(String),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// What is wrong with the secret of a class.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretNameError {
    #[error(transparent)]
    Incomplete(#[from] IncompleteReference),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The user, by event and status.
    User(&'static str),
    /// The user, by event only: nothing is wrong with the request.
    Event(&'static str),
    /// Nobody: it passes.
    Nobody,
}

fn list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl Failure {
    /// Whether what the attempt was about is gone.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Object(ObjectError::Gone(_)))
    }

    /// Who is told, and under which reason. The reasons are upstream's.
    pub(crate) fn audience(&self, kind: Kind) -> Audience {
        let by_kind = |single, group| match kind {
            Kind::Single => single,
            Kind::Group => group,
        };
        Audience::User(match self {
            Self::Source => by_kind("SnapshotValidationError", "GroupSnapshotValidationError"),
            Self::NoClass(_) => by_kind("GetSnapshotClassFailed", "GetGroupSnapshotClassFailed"),
            Self::NoDefault { .. } | Self::Defaults { .. } => by_kind(
                "SetDefaultSnapshotClassFailed",
                "SetDefaultGroupSnapshotClassFailed",
            ),
            Self::Unusable { .. }
            | Self::NoClaims(_)
            | Self::Selector(_)
            | Self::OtherDriver { .. }
            | Self::Secret { .. }
            | Self::Object(ObjectError::Forbidden { .. }) => by_kind(
                "SnapshotContentCreationFailed",
                "GroupSnapshotContentCreationFailed",
            ),
            Self::ContentMissing(_) => {
                by_kind("SnapshotContentMissing", "GroupSnapshotContentMissing")
            }
            Self::Mismatch(_) => by_kind("SnapshotContentMismatch", "GroupSnapshotContentMismatch"),
            Self::Misbound(_) => by_kind("SnapshotContentMisbound", "GroupSnapshotContentMisbound"),
            Self::NotBegun(_) => {
                return Audience::Event(by_kind("SnapshotNotBegun", "GroupSnapshotNotBegun"));
            }
            Self::InUse
            | Self::InGroup(_)
            | Self::GroupUnreadable(_)
            | Self::MembersElsewhere(_) => return Audience::Event("SnapshotDeletePending"),
            Self::GroupGoing | Self::Object(_) => return Audience::Nobody,
        })
    }
}
