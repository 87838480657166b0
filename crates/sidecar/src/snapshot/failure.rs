//! What can go wrong with a content, and what is said about it.

use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::secrets::SecretError;
use tonic::{Code, Status};

use super::parameters::ParameterError;
use crate::cluster::content::Kind;
use crate::driver_call;

/// Why an attempt ended. All are tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the content does not belong to a snapshot: spec.volumeSnapshotRef has no uid")]
    NoOwner,
    #[error("no class is named, and a snapshot cannot be taken without one")]
    ClassNotNamed,
    #[error(
        "snapshot class `{0}` does not exist or is for another driver: create it, or take a snapshot with another class"
    )]
    NoClass(String),
    #[error("snapshot class `{class}`: {error}")]
    Parameters {
        class: String,
        #[source]
        error: ParameterError,
    },
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{}", driver_call::status(.0))]
    Driver(Box<Status>),
    #[error("the driver's answer is not valid: {0}")]
    Answer(String),
    #[error("the driver does not know snapshot `{0}`")]
    Missing(String),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Driver(Box::new(status))
    }
}

impl Failure {
    /// The driver has answered, and is doing nothing for us any more.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Driver(status) => {
                let code = status.code();
                !driver_call::may_be_running(code) && code != Code::ResourceExhausted
            }
            _ => false,
        }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Make,
    Look,
    Delete,
}

impl Attempt {
    /// The reason of the event, as upstream's sidecar calls it.
    pub(super) fn reason(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Make, Kind::Single) => "SnapshotCreationFailed",
            (Self::Look, Kind::Single) => "SnapshotContentCheckandUpdateFailed",
            (Self::Delete, Kind::Single) => "SnapshotDeleteError",
            (Self::Make, Kind::Group) => "GroupSnapshotCreationFailed",
            (Self::Look, Kind::Group) => "GroupSnapshotContentCheckandUpdateFailed",
            (Self::Delete, Kind::Group) => "GroupSnapshotDeleteError",
        }
    }

    /// How the message begins.
    pub(super) fn failed(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Make, Kind::Single) => "Failed to create snapshot",
            (Self::Look, Kind::Single) => "Failed to check and update snapshot content",
            (Self::Delete, Kind::Single) => "Failed to delete snapshot",
            (Self::Make, Kind::Group) => "Failed to create group snapshot",
            (Self::Look, Kind::Group) => "Failed to check and update group snapshot content",
            (Self::Delete, Kind::Group) => "Failed to delete group snapshot",
        }
    }
}
