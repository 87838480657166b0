//! Why an attempt ended without success, and what that means.

use stowage_api::quantity::QuantityError;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::secrets::SecretError;
use tonic::Status;

use super::step::{Refusal, TooSmall};
use crate::access::AccessError;
use crate::driver_call;

/// Why a claim does not have its new size yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{}", driver_call::status(.0))]
    Driver(Box<Status>),
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    #[error(
        "driver `{0}` cannot expand volumes: create a larger claim and copy the data, and set allowVolumeExpansion to \
         false in the storage class"
    )]
    Unable(String),
    #[error(
        "the driver expands volumes only while they are not in use, and {0}: stop the pods that use the claim"
    )]
    InUse(String),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Size(#[from] QuantityError),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Failure {
    pub(super) fn of_driver(status: Status) -> Self {
        Self::Driver(Box::new(status))
    }

    /// What it means for the next attempt.
    pub(super) fn refusal(&self) -> Refusal {
        match self {
            Self::Driver(status) => Refusal::of(status.code()),
            Self::InUse(_) => Refusal::InUse,
            Self::Unable(_) => Refusal::Infeasible,
            // What the driver made of it is not known.
            Self::TooSmall(_) => Refusal::Open,
            Self::Access(_) | Self::Secret(_) | Self::Size(_) | Self::Object(_) => Refusal::Final,
        }
    }

    /// Whether it belongs on the claim: somebody can do something about it, and the API server would take it.
    pub(super) fn is_for_the_claim(&self) -> bool {
        match self {
            Self::Driver(status) => Refusal::of(status.code()) != Refusal::Open,
            Self::Unable(_) | Self::Access(_) | Self::Secret(_) => true,
            Self::TooSmall(_) | Self::InUse(_) | Self::Size(_) | Self::Object(_) => false,
        }
    }
}
