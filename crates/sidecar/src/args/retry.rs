//! The pauses of work that fails, for all roles or for one.

use std::time::Duration;

use stowage_kubernetes::queue::Backoff;

use super::{ArgsError, Common};

/// What was typed for one role.
#[derive(Clone, Copy)]
pub(super) struct Retry {
    pub(super) start: Option<Duration>,
    pub(super) max: Option<Duration>,
}

impl Common {
    /// The pauses of a role, whose flags begin with `prefix`. Where only the longest is the role's own and shorter than the first pause of
    /// all, that is the first one, too.
    pub(super) fn retry(self, prefix: &'static str, own: Retry) -> Result<Backoff, ArgsError> {
        let longest = own.max.unwrap_or(self.retry.longest);
        let retry = Backoff {
            first: own.start.unwrap_or(self.retry.first.min(longest)),
            longest,
        };
        checked(prefix, retry)
    }
}

/// Refuses pauses that would be none.
pub(super) fn checked(prefix: &'static str, retry: Backoff) -> Result<Backoff, ArgsError> {
    if retry.first.is_zero() || retry.first > retry.longest {
        return Err(ArgsError::Retry(prefix));
    }
    Ok(retry)
}
