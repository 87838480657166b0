//! Why an object is not as it is wanted.

use stowage_api::driver_deployment::ADOPT_ANNOTATION;
use stowage_kubernetes::answer::Answer;

use super::{Difference, Key};

/// What keeps an object from being as it is wanted.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An object of this name is there and is not ours.
    #[error(
        "{0} already exists and does not belong to this CSIDriverDeployment: it was not changed, delete or rename it, or hand it over \
         with the annotation `{ADOPT_ANNOTATION}: NAMESPACE/NAME` of this resource"
    )]
    Collision(Key),
    /// Fields changed that the server does not let anybody change.
    #[error(
        "{key} cannot be changed in place: {}",
        super::refusal::preview(differences)
    )]
    Immutable {
        /// The object.
        key: Key,
        /// What would change.
        differences: Vec<Difference>,
    },
    /// Somebody else changes it again and again.
    #[error(
        "{key} is changed by {} again as soon as it is changed back: it is restored twice a minute only, until that ends",
        by.as_ref().map_or_else(|| "somebody".to_owned(), |by| format!("`{by}`"))
    )]
    Contested {
        /// The object.
        key: Key,
        /// Who wrote it last, by the name that they gave the server.
        by: Option<String>,
    },
    /// The server refused or did not answer.
    #[error("error syncing {key}: {source}")]
    Api {
        /// The object.
        key: Key,
        /// What it said.
        source: Box<kube::Error>,
    },
}

impl WriteError {
    pub(super) fn api(key: &Key) -> impl FnOnce(kube::Error) -> Self {
        let key = key.clone();
        move |source| Self::Api {
            key,
            source: Box::new(source),
        }
    }

    /// Whether somebody else wrote at the same time: the next attempt sees what they wrote.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Api { source, .. } => Answer::of(source) == Answer::Conflict,
            Self::Collision(_) | Self::Immutable { .. } | Self::Contested { .. } => false,
        }
    }
}
