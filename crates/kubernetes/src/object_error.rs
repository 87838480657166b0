//! Why an object was not read or written: the server's answers, with the verb and the kind that a role names.

use std::borrow::Cow;

use crate::answer::{self, Answer};

/// A kind as roles name it, such as `persistentvolumes` or `volumeattachments/status`.
pub type Kind = Cow<'static, str>;

/// Why an object was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is gone, or there is another one under its name.
    #[error("the object of kind {0} is gone")]
    Gone(Kind),
    /// Somebody else was faster.
    #[error("the object of kind {0} was changed by somebody else at the same time")]
    Conflict(Kind),
    /// It is another object, or has other finalizers, or the server does not accept the new value. The server's words.
    #[error("the API server refuses a change of {0}: {1}")]
    Refused(Kind, String),
    /// The role lacks a rule.
    #[error(
        "the service account may not {verb} {kind}: add `{verb}` on `{kind}` to its ClusterRole"
    )]
    Forbidden {
        /// What was tried.
        verb: &'static str,
        /// With what.
        kind: Kind,
    },
    /// No answer, or none about the object.
    #[error("the API server: {}", answer::chain(&**.0))]
    Failed(Box<kube::Error>),
}

impl ObjectError {
    /// Whether a write was decided on what is no longer so: read again, and decide again.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Refused(_, said) => !answer::is_denied(said),
            _ => false,
        }
    }

    /// The server's answer is not what it should be.
    pub fn unreadable(error: serde_json::Error) -> Self {
        Self::Failed(Box::new(kube::Error::SerdeError(error)))
    }
}

/// What an error means after an attempt to `verb` an object of this kind; for `map_err`.
pub fn explain(
    verb: &'static str,
    kind: impl Into<Kind>,
) -> impl FnOnce(kube::Error) -> ObjectError {
    move |error| {
        let kind = kind.into();
        match Answer::of(&error) {
            Answer::Gone => ObjectError::Gone(kind),
            Answer::Conflict => ObjectError::Conflict(kind),
            Answer::Refused(said) => ObjectError::Refused(kind, said.to_owned()),
            Answer::Forbidden(_) => ObjectError::Forbidden { verb, kind },
            Answer::NotServed | Answer::Terminating | Answer::Unavailable => {
                ObjectError::Failed(Box::new(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn explained(code: u16, message: &str) -> String {
        let details = serde_json::from_value(json!({ "name": "data" })).unwrap();
        let status = Status::failure(message, "").with_code(code);
        let error = kube::Error::Api(Box::new(status.with_details(details)));
        explain("patch", "persistentvolumes")(error).to_string()
    }

    #[test]
    fn a_missing_rule_is_named_with_its_remedy() {
        let remedy = "add `patch` on `persistentvolumes` to its ClusterRole";
        assert!(explained(403, "cannot patch").ends_with(remedy));
    }

    #[test]
    fn what_the_server_said_is_told_once() {
        let refused = "the API server refuses a change of persistentvolumes: spec is immutable";
        assert_eq!(explained(422, "spec is immutable"), refused);
        assert_eq!(
            explained(500, "etcd is away"),
            "the API server: etcd is away"
        );
    }
}
