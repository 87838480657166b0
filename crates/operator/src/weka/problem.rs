//! What keeps a client or a container from being as described, in words and reasons.

use stowage_kubernetes::answer::{self, Answer};

use crate::driver::Kind;
use crate::mounts::KeyError;
use crate::writer::WriteError;

/// Why a condition is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The object has a mistake.
    Invalid,
    /// The object cannot be read at all.
    Unreadable,
    /// No node fits the client.
    NoNodes,
    /// The target cluster is not there.
    TargetClusterMissing,
    /// The target cluster is going.
    TargetClusterDeleting,
    /// A name is not within limits.
    NameInvalid,
    /// Two that do not belong together come to one name of a driver.
    NameConflict,
    /// Something of this name belongs to somebody else.
    Collision,
    /// The secret of the driver is not there.
    SecretMissing,
    /// The secret of the driver lacks something.
    SecretIncomplete,
    /// The operator may not see the secret of the driver.
    SecretForbidden,
    /// Something is still mounted.
    ActiveMounts,
    /// A pod was started with other settings.
    PodOutdated,
    /// The operator lacks a right.
    Forbidden,
    /// The server refused an object.
    Rejected,
    /// The server could not be asked.
    ApiError,
}

impl Reason {
    /// As it is written in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Unreadable => "Unreadable",
            Self::NoNodes => "NoNodes",
            Self::TargetClusterMissing => "TargetClusterMissing",
            Self::TargetClusterDeleting => "TargetClusterDeleting",
            Self::NameInvalid => "NameInvalid",
            Self::NameConflict => "NameConflict",
            Self::Collision => "Collision",
            Self::SecretMissing => "SecretMissing",
            Self::SecretIncomplete => "SecretIncomplete",
            Self::SecretForbidden => "SecretForbidden",
            Self::ActiveMounts => "ActiveMounts",
            Self::PodOutdated => "PodOutdated",
            Self::Forbidden => "Forbidden",
            Self::Rejected => "Rejected",
            Self::ApiError => "ApiError",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Why, in a word.
    pub reason: Reason,
    /// Why, in a sentence, and what to do.
    pub message: String,
    /// Whether somebody else just wrote at the same time, or our own write is still on its way to us.
    pub is_conflict: bool,
}

impl Problem {
    /// Puts it together.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            is_conflict: false,
        }
    }

    /// Whether time may heal it. The others wait for a change that a watch sees.
    pub fn is_worth_a_retry(&self) -> bool {
        matches!(
            self.reason,
            Reason::Collision | Reason::Forbidden | Reason::Rejected | Reason::ApiError
        )
    }
}

impl From<&WriteError> for Problem {
    fn from(error: &WriteError) -> Self {
        let (reason, message) = match error {
            WriteError::Collision(key) => {
                let mut message = format!(
                    "{key} already exists and was made by somebody else: it was not changed, delete or rename it"
                );
                if key.kind == Kind::ServiceAccount {
                    message += "; until then nothing is granted to it and no pods run as it";
                }
                (Reason::Collision, message)
            }
            WriteError::Immutable { .. } | WriteError::Contested { .. } => {
                (Reason::Rejected, error.to_string())
            }
            WriteError::Api { key, source } => {
                let reason = match Answer::of(source) {
                    Answer::Forbidden(_) | Answer::Terminating => Reason::Forbidden,
                    Answer::Refused(_) => Reason::Rejected,
                    _ => Reason::ApiError,
                };
                let told = answer::chain(source.as_ref());
                (reason, format!("{key} cannot be written: {told}"))
            }
        };
        Self {
            is_conflict: error.is_conflict(),
            ..Self::new(reason, message)
        }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        Self::from(&error)
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        let message = format!(
            "cannot ask nodes what is mounted: {}",
            answer::chain(&error)
        );
        Self::new(Reason::ApiError, message)
    }
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        let is_conflict = Answer::of(&error).is_stale();
        Self {
            is_conflict,
            ..Self::new(Reason::ApiError, answer::chain(&error))
        }
    }
}
