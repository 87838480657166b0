//! What was found of a volume, and what it means.

use std::time::Instant;

use stowage_csi::proto::csi::VolumeCondition;

use crate::quota::Size;
use crate::rest::wire::{Quota, QuotaStatus};

/// What was found of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The cluster it is on; empty if nobody could be asked.
    pub(crate) cluster: String,
    pub(crate) state: State,
    pub(crate) at: Instant,
}

/// How a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It has a quota.
    Limited {
        bytes: u64,
        used: u64,
        status: QuotaStatus,
    },
    /// It is there, without a quota. Its number is known where the cluster resolves paths.
    Unlimited { inode: Option<u64> },
    /// It is not there: why.
    Missing(String),
    /// Nobody could be asked: why.
    Unknown(String),
}

impl State {
    pub(super) fn of_quota(quota: &Quota) -> Self {
        Self::Limited {
            bytes: Size::from(quota.limits()).bytes,
            used: quota.used(),
            status: quota.status,
        }
    }

    /// One word for metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Limited { status, .. } => match status {
                QuotaStatus::Active => "ACTIVE",
                QuotaStatus::Adding | QuotaStatus::Unknown => "ADDING",
                QuotaStatus::Error | QuotaStatus::Deleting => "ERROR",
            },
            Self::Unlimited { .. } => "NONE",
            Self::Missing(_) => "MISSING",
            Self::Unknown(_) => "UNKNOWN",
        }
    }

    /// Whether nothing is wrong with the volume, if that is known.
    pub(crate) fn is_healthy(&self) -> Option<bool> {
        match self {
            Self::Unknown(_) => None,
            state => Some(!state.condition().abnormal),
        }
    }

    /// What callers are told. A volume that could not be looked at is not called abnormal: nothing is known to be wrong
    /// with it.
    pub(crate) fn condition(&self) -> VolumeCondition {
        let (abnormal, message) = match self {
            Self::Limited { status, .. } => match status {
                QuotaStatus::Active => (false, "the volume is healthy".to_owned()),
                QuotaStatus::Adding | QuotaStatus::Unknown => {
                    (false, "the quota is being added".to_owned())
                }
                QuotaStatus::Error | QuotaStatus::Deleting => {
                    (true, "the quota is not enforced".to_owned())
                }
            },
            Self::Unlimited { .. } => (
                false,
                "the volume has no quota, so its capacity is not enforced".to_owned(),
            ),
            Self::Missing(reason) => (true, reason.clone()),
            Self::Unknown(reason) => (
                false,
                format!("the condition of the volume is not known: {reason}"),
            ),
        };
        VolumeCondition { abnormal, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_be_wrong_is_abnormal() {
        let limited = |status| State::Limited {
            bytes: 2,
            used: 1,
            status,
        };
        for (state, word, abnormal) in [
            (limited(QuotaStatus::Active), "ACTIVE", false),
            (limited(QuotaStatus::Adding), "ADDING", false),
            (limited(QuotaStatus::Error), "ERROR", true),
            (State::Unlimited { inode: None }, "NONE", false),
            (State::Missing("gone".to_owned()), "MISSING", true),
            (State::Unknown("no secret".to_owned()), "UNKNOWN", false),
        ] {
            assert_eq!(state.word(), word);
            assert_eq!(state.condition().abnormal, abnormal, "{word}");
            let known = (word != "UNKNOWN").then_some(!abnormal);
            assert_eq!(state.is_healthy(), known, "{word}");
        }
    }
}
