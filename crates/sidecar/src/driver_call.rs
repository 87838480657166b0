//! How calls to the driver end, and how that is told.

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
