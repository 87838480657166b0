//! Quotas.

use serde::Deserialize;

use super::{number, or_default};
use crate::quota::Limits;

/// How far a quota has come.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum QuotaStatus {
    Active,
    Adding,
    Error,
    Deleting,
    #[default]
    #[serde(other)]
    Unknown,
}

/// `fileSystems/{uid}/quota[/{inode}]`.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct Quota {
    #[serde(default, deserialize_with = "number")]
    pub(crate) inode_id: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) hard_limit_bytes: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) soft_limit_bytes: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) grace_seconds: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: QuotaStatus,
    /// The bytes in the directory.
    #[serde(default, deserialize_with = "or_default")]
    used_bytes: Option<u64>,
    /// The same in lists of some releases.
    #[serde(default, deserialize_with = "or_default")]
    total_bytes: Option<u64>,
    /// In lists only.
    #[serde(default, deserialize_with = "or_default")]
    path: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    full_path: Option<String>,
}

impl Quota {
    /// One that was just set.
    pub(crate) fn of(limits: Limits, status: QuotaStatus) -> Self {
        Self {
            inode_id: 0,
            hard_limit_bytes: limits.hard_bytes,
            soft_limit_bytes: limits.soft_bytes,
            grace_seconds: limits.grace_seconds,
            status,
            used_bytes: None,
            total_bytes: None,
            path: None,
            full_path: None,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            hard_bytes: self.hard_limit_bytes,
            soft_bytes: self.soft_limit_bytes,
            grace_seconds: self.grace_seconds,
        }
    }

    /// Where the directory is, from the root of its filesystem; known in lists only. Some releases put the filesystem's
    /// name in front.
    pub(crate) fn path_on(&self, filesystem: &str) -> Option<&str> {
        let path = self.path.as_deref().or(self.full_path.as_deref())?;
        let within = path.strip_prefix(filesystem);
        let within = within.and_then(|rest| rest.strip_prefix(':'));
        Some(within.unwrap_or(path).trim_matches('/'))
    }

    /// The bytes in the directory.
    pub(crate) fn used(&self) -> u64 {
        self.used_bytes.or(self.total_bytes).unwrap_or_default()
    }
}
