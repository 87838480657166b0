//! How calls to the driver end, and how that is told.

use std::error::Error;

use tonic::{Code, Status};

/// The call may still be at work: it must be made again with the same arguments until there is a final answer.
pub(crate) fn may_be_running(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted
    )
}

/// The answer of a driver for people, as upstream's sidecars show it.
pub(crate) fn status(status: &Status) -> String {
    let code = stowage_csi::metrics::code_label(status.code());
    format!("rpc error: code = {code} desc = {}", status.message())
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let answer = api_answer(error);
        let part = answer.clone().unwrap_or_else(|| error.to_string());
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            // Some errors quote their cause already.
            text = format!("{text}: {part}");
        }
        next = error.source().filter(|_| answer.is_none());
    }
    text
}

/// What the API server said, in its own words: they name object and verb. The client's text, and its causes, only
/// repeat them.
fn api_answer(error: &(dyn Error + 'static)) -> Option<String> {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    let Some(kube::Error::Api(status)) = error.downcast_ref().or_else(boxed) else {
        return None;
    };
    Some(match status.code {
        403 => format!(
            "{}: add this rule to the role of the sidecar",
            status.message
        ),
        _ => status.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("secret `x` cannot be read")]
    struct Outer(#[source] Box<kube::Error>);

    fn refusal(code: u16) -> kube::Error {
        let status = kube::core::Status::failure("secrets \"x\" is forbidden", "Forbidden");
        kube::Error::Api(Box::new(status.with_code(code)))
    }

    #[test]
    fn what_the_server_said_is_told_once_with_the_remedy() {
        let said = "secrets \"x\" is forbidden: add this rule to the role of the sidecar";
        assert_eq!(chain(&refusal(403)), said);
        let outer = Outer(Box::new(refusal(403)));
        assert_eq!(chain(&outer), format!("secret `x` cannot be read: {said}"));
        assert_eq!(chain(&refusal(409)), "secrets \"x\" is forbidden");
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
