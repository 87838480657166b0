//! What the API server's answers mean, and how they are told.

use std::error::Error;

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
        let kube::Error::Api(status) = error else {
            return Self::Unavailable;
        };
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
        matches!(self, Self::Conflict | Self::Refused(_))
    }
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
/// client's text only repeats them. A missing right comes with the remedy.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_with(error, |error| {
        let status = status(error)?;
        Some(match status.code {
            403 => format!(
                "{}: add this rule to the role of this process",
                status.message
            ),
            _ => status.message.clone(),
        })
    })
}

fn status<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a kube::core::Status> {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match error.downcast_ref().or_else(boxed) {
        Some(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
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
        let refused = std::io::Error::from_raw_os_error(111);
        let silence = kube::Error::Service(Box::new(refused));
        assert_eq!(Answer::of(&silence), Answer::Unavailable);
    }

    #[test]
    fn what_the_server_said_is_told_once_with_the_remedy() {
        let said = "secrets \"x\" is forbidden";
        let with_remedy = "secrets \"x\" is forbidden: add this rule to the role of this process";
        assert_eq!(chain(&answer(403, said, "x")), with_remedy);
        let outer = Outer(Box::new(answer(403, said, "x")));
        assert_eq!(
            chain(&outer),
            format!("secret `x` cannot be read: {with_remedy}")
        );
        assert_eq!(chain(&answer(409, said, "x")), said);
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
