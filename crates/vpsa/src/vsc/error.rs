//! Why a step was not done.

use stowage_kubernetes::object_error::ObjectError;

use super::allocator::NoArray;
use super::array::step::Trouble;
use crate::rest::{ApiError, Refusal};

/// The reason of what an array has no room for.
pub const NO_ROOM: &str = "NoRoom";

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The API server.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The array, or its description.
    #[error(transparent)]
    Array(#[from] Trouble),
    /// Nobody has looked yet whether the array answers.
    #[error("VPSA `{0}` has not been looked at yet")]
    Unheard(String),
    /// No array takes it.
    #[error(transparent)]
    Allocation(#[from] NoArray),
    /// The array does not remove a Server record.
    #[error("Server record `{name}` ({id}) is not removed: detach on the array what it still has")]
    Record {
        /// Its name.
        name: String,
        /// Its identity.
        id: String,
        /// What the array says.
        source: Box<ApiError>,
    },
    /// The array does not delete a volume.
    #[error("it is not deleted. {remedy}")]
    Undeleted {
        /// What people can do.
        remedy: String,
        /// What the array says.
        source: Box<ApiError>,
    },
    /// Something that it names is not there.
    #[error("{0}")]
    Missing(String),
}

impl From<ApiError> for StepError {
    fn from(error: ApiError) -> Self {
        Self::Array(error.into())
    }
}

impl StepError {
    /// One word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Object(_) => "ApiServer",
            Self::Array(Trouble::Call(error)) if error.refusal() == Some(Refusal::NoRoom) => {
                NO_ROOM
            }
            Self::Array(_) | Self::Unheard(_) | Self::Undeleted { .. } | Self::Record { .. } => {
                "ArrayFailed"
            }
            Self::Allocation(_) => "NoArray",
            Self::Missing(_) => "SourceMissing",
        }
    }
}
