//! What the API server's answers mean, and how they are told.

use std::error::Error;

use kube::core::Status;
use kube::runtime::watcher;
use stowage_api::causes::chain_with;

/// What a request that failed means for the object it was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// There is no such object, or not its namespace.
    Gone,
    /// The server does not know the kind: its definition is not installed, or the server has only just started and does
    /// not serve it yet. It answers 404 as well then, but names no object.
    NotServed,
    /// Somebody else wrote at the same time; or the object to be made is there already.
    Conflict,
    /// The content is refused: it is invalid, too large, or a test of a JSON patch failed. The server's words.
    Refused(&'a str),
    /// Nothing can be made in a namespace that is being deleted.
    Terminating,
    /// A right is missing. The server's words.
    Forbidden(&'a str),
    /// No answer, or none about the object: the same request may succeed later.
    Unavailable,
}

impl<'a> Answer<'a> {
    /// Reads an error.
    pub fn of(error: &'a kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            _ => Self::Unavailable,
        }
    }

    /// Reads an error of a watch.
    pub fn of_watch(error: &'a watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of(error),
            watcher::Error::WatchError(status) => Self::of_status(status),
            watcher::Error::NoResourceVersion => Self::Unavailable,
        }
    }

    fn of_status(status: &'a Status) -> Self {
        let message = status.message.as_str();
        let details = status.details.as_ref();
        match status.code {
            404 if details.is_some_and(|details| !details.name.is_empty()) => Self::Gone,
            404 => Self::NotServed,
            409 => Self::Conflict,
            403 if message.contains("being terminated") => Self::Terminating,
            401 | 403 => Self::Forbidden(message),
            400 | 413 | 422 => Self::Refused(message),
            _ => Self::Unavailable,
        }
    }

    /// Whether a write was decided on what is no longer so: the next look at the object tells.
    pub fn is_stale(self) -> bool {
        match self {
            Self::Conflict => true,
            Self::Refused(said) => !is_denied(said),
            _ => false,
        }
    }
}

/// Whether an admission webhook or policy refuses a change, in its server's words: it will refuse the next one, too.
pub(crate) fn is_denied(said: &str) -> bool {
    said.contains("denied the request") || said.contains("denied request")
}

/// Whether there is no such object.
pub fn is_gone(error: &kube::Error) -> bool {
    Answer::of(error) == Answer::Gone
}

/// Whether there is no object of this uid: it is gone, or there is another one under its name.
pub fn is_gone_or_replaced(error: &kube::Error) -> bool {
    matches!(Answer::of(error), Answer::Gone | Answer::Conflict)
}

/// An error with all its causes, the API server's answer in the server's own words: they name object and verb, and the
/// client's text only repeats them. A missing rule comes with the remedy.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_with(error, |error| {
        let status = status(error)?;
        Some(if lacks_rule(status) {
            format!(
                "{}: add this rule to the role of this process",
                status.message
            )
        } else {
            status.message.clone()
        })
    })
}

/// Whether a role lacks a rule. Quotas and policies refuse with the same code, but in other words.
fn lacks_rule(status: &Status) -> bool {
    status.code == 403 && status.message.contains(" cannot ")
}

fn status<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match error.downcast_ref().or_else(boxed) {
        Some(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("secret `x` cannot be read")]
    struct Outer(#[source] Box<kube::Error>);

    fn answer(code: u16, message: &str, name: &str) -> kube::Error {
        let details = serde_json::from_value(json!({ "name": name })).unwrap();
        let status = Status::failure(message, "").with_code(code);
        kube::Error::Api(Box::new(status.with_details(details)))
    }

    #[test]
    fn answers_are_told_apart() {
        let table = [
            (404, "", "data", Answer::Gone),
            (404, "404 page not found", "", Answer::NotServed),
            (409, "", "data", Answer::Conflict),
            (422, "invalid", "data", Answer::Refused("invalid")),
            (413, "too large", "", Answer::Refused("too large")),
            (401, "who?", "", Answer::Forbidden("who?")),
            (403, "cannot get", "", Answer::Forbidden("cannot get")),
            (
                403,
                "namespace a is being terminated",
                "",
                Answer::Terminating,
            ),
            (429, "", "", Answer::Unavailable),
            (500, "", "", Answer::Unavailable),
            (503, "", "", Answer::Unavailable),
        ];
        for (code, message, name, expected) in table {
            assert_eq!(Answer::of(&answer(code, message, name)), expected, "{code}");
        }
        let is_stale = |said| Answer::of(&answer(422, said, "data")).is_stale();
        assert!(is_stale(
            "the server rejected our request due to an error in our request"
        ));
        assert!(!is_stale("admission webhook \"w\" denied the request: no"));
        assert!(!is_stale(
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
        ));
        let refused = std::io::Error::from_raw_os_error(111);
        let silence = kube::Error::Service(Box::new(refused));
        assert_eq!(Answer::of(&silence), Answer::Unavailable);
    }

    #[test]
    fn what_the_server_said_is_told_once_with_the_remedy() {
        let said = r#"secrets "x" is forbidden: User "u" cannot get resource "secrets""#;
        let with_remedy = format!("{said}: add this rule to the role of this process");
        assert_eq!(chain(&answer(403, said, "x")), with_remedy);
        let outer = Outer(Box::new(answer(403, said, "x")));
        assert_eq!(
            chain(&outer),
            format!("secret `x` cannot be read: {with_remedy}")
        );
        assert_eq!(chain(&answer(409, said, "x")), said);
        let quota = r#"pods "x" is forbidden: exceeded quota: none"#;
        assert_eq!(chain(&answer(403, quota, "x")), quota);
    }

    #[test]
    fn a_watch_is_refused_like_any_request() {
        let forbidden = answer(403, "cannot list", "");
        let refused = watcher::Error::InitialListFailed(forbidden);
        assert_eq!(Answer::of_watch(&refused), Answer::Forbidden("cannot list"));
        let unknown = watcher::Error::WatchStartFailed(answer(404, "404 page not found", ""));
        assert_eq!(Answer::of_watch(&unknown), Answer::NotServed);
        assert_eq!(
            Answer::of_watch(&watcher::Error::NoResourceVersion),
            Answer::Unavailable
        );
    }

    #[test]
    fn other_errors_are_told_with_their_causes() {
        let missing = std::io::Error::from_raw_os_error(2);
        let outer = Outer(Box::new(kube::Error::Service(Box::new(missing))));
        let told = chain(&outer);
        assert!(told.starts_with("secret `x` cannot be read: "), "{told}");
        assert!(told.contains("No such file"), "{told}");
    }
}
