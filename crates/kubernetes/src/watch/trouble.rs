//! What is said of a watch that does not work.

use kube::runtime::watcher;
use stowage_service::health::Check;

use crate::answer::{self, Answer};

/// Reports what is wrong with a watch, once: it is tried again every few seconds.
pub(super) fn report(kind: &str, error: &watcher::Error, check: &Check, last: &mut String) {
    let told = match missing_rule(error) {
        Some(verb) => format!(
            "the service account may not {verb} {kind}: add `{verb}` on `{kind}` to its ClusterRole"
        ),
        None => answer::chain(error),
    };
    if *last != told {
        tracing::warn!(kind, reason = told, "A watch does not work; trying again.");
        check.not_ready(told.as_str());
        *last = told;
    }
}

/// The verb that the role lacks, if that is the trouble.
fn missing_rule(error: &watcher::Error) -> Option<&'static str> {
    let verb = match error {
        watcher::Error::InitialListFailed(_) => "list",
        _ => "watch",
    };
    matches!(Answer::of_watch(error), Answer::Forbidden(_)).then_some(verb)
}
