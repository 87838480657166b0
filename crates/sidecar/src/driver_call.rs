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
    let mut text = plain(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = plain(error);
        // Some errors quote their cause already.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// One error. What the API server says is told in its own words: they name object and verb. The client's text repeats
/// them with every field of the answer.
fn plain(error: &(dyn Error + 'static)) -> String {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match error.downcast_ref().or_else(boxed) {
        Some(kube::Error::Api(status)) if status.code == 403 => {
            format!(
                "{}: add this rule to the role of the sidecar",
                status.message
            )
        }
        Some(kube::Error::Api(status)) => status.message.clone(),
        _ => error.to_string(),
    }
}
