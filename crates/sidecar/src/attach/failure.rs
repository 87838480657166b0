//! What can go wrong with an attachment, and what is said about it.

use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::secrets::SecretError;
use tonic::Status;

use super::patch::VolumeError;
use super::step::Problem;
use super::write::VOLUMES;
use crate::driver_call;

/// Why an attempt ended. All are tried again: no code of a driver proves that nothing was attached, and the same call
/// again is always allowed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Problem(#[from] Problem),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{}", driver_call::status(.0))]
    Driver(Box<Status>),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Failure {
    /// Decided from a cache that lagged behind: read again, and decide again.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            Self::Object(ObjectError::Gone(kind)) => kind == VOLUMES,
            Self::Object(error) => error.is_stale(),
            Self::Problem(_) | Self::Secret(_) | Self::Driver(_) => false,
        }
    }

    /// Somebody took the attachment away.
    pub(super) fn is_attachment_gone(&self) -> bool {
        matches!(self, Self::Object(ObjectError::Gone(kind)) if kind != VOLUMES)
    }

    /// As users see it; with the gRPC code where the server has a field for it.
    pub(super) fn volume_error(&self, with_codes: bool) -> VolumeError {
        let code = match self {
            Self::Driver(status) if with_codes => Some(status.code().into()),
            _ => None,
        };
        VolumeError::new(self.to_string(), code)
    }

    /// The API server itself is in trouble: it would not take what we have to say about it.
    pub(super) fn is_of_server(&self) -> bool {
        matches!(self, Self::Object(ObjectError::Failed(_)))
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Driver(Box::new(status))
    }
}
