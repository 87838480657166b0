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
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some errors quote their cause already.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
