//! Quotas of directories: set, remove, and what they say of themselves.

use serde::Deserialize;

use super::filesystems::{Moment, next_number};
use super::objects::quota_key;
use super::{Change, Filesystem, Millis, Object, Quota, Refusal, State};
use crate::weka::release::Feature;

/// The limit that says: no limit.
pub const UNLIMITED: u64 = i64::MAX as u64;

/// The body of `PUT fileSystems/{uid}/quota/{inode}`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    hard_limit_bytes: Option<u64>,
    soft_limit_bytes: Option<u64>,
    #[serde(default)]
    grace_seconds: u64,
    // Clients may say where the directory is; the inode is what counts.
    #[serde(rename = "path")]
    _path: Option<String>,
}

/// The directory that a quota is to be set on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its inode.
    pub inode: u64,
    /// Whether nothing is in it.
    pub empty: bool,
    /// The snapshot it is in.
    pub snapshot: Option<String>,
}

/// What becomes of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the cluster's own words")]
pub enum Status {
    Adding,
    Active,
    Error,
    Deleting,
}

impl Status {
    /// As the REST API spells it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Adding => "ADDING",
            Self::Active => "ACTIVE",
            Self::Error => "ERROR",
            Self::Deleting => "DELETING",
        }
    }
}

impl Quota {
    /// Where it is on its way.
    pub fn status(&self, now: Millis) -> Status {
        match (self.removed_at, self.active_at) {
            (Some(_), _) => Status::Deleting,
            (None, None) => Status::Error,
            (None, Some(at)) if now < at => Status::Adding,
            (None, Some(_)) => Status::Active,
        }
    }

    /// The change that lets it go at a moment.
    pub fn removed(mut self, at: Option<Millis>) -> Change {
        self.removed_at = at;
        Change::Put(Object::Quota(self))
    }

    /// Whether `used` bytes are worth an alert.
    pub fn is_overrun(&self, used: u64, now: Millis) -> bool {
        self.status(now) == Status::Active && used > self.soft_limit_bytes
    }
}

/// Sets the quota of a directory. Called twice: a new quota is being added, an existing one has the new limits at once.
pub fn set(
    state: &State,
    filesystem: &Filesystem,
    directory: &Directory,
    limits: &Limits,
    moment: &Moment,
) -> Result<(Vec<Change>, Quota), Refusal> {
    filesystem.check_ready(moment.now)?;
    let (hard, soft) = check(limits)?;
    let existing = state
        .quotas
        .get(&quota_key(&filesystem.uid, directory.inode));
    if existing.is_some_and(|quota| quota.removed_at.is_some()) {
        return Err(Refusal::Busy {
            what: format!("The quota of inode {}", directory.inode),
            doing: "being removed",
        });
    }
    if existing.is_none() && !directory.empty && !state.has_data_services() {
        return Err(Refusal::DirectoryNotEmpty);
    }
    let (number, counted) = next_number(state.cluster());
    let fresh = Quota {
        filesystem: filesystem.uid.clone(),
        inode: directory.inode,
        number,
        hard_limit_bytes: hard,
        soft_limit_bytes: soft,
        grace_seconds: limits.grace_seconds,
        snapshot: directory.snapshot.clone(),
        active_at: moment.delays.quota.map(|delay| moment.now + delay),
        removed_at: None,
    };
    let quota = match existing {
        Some(old) => Quota {
            number: old.number,
            active_at: old.active_at.or(fresh.active_at),
            ..fresh
        },
        None => fresh,
    };
    Ok((
        vec![counted, Change::Put(Object::Quota(quota.clone()))],
        quota,
    ))
}

/// The quota of a directory.
pub fn get<'a>(state: &'a State, filesystem: &str, inode: u64) -> Result<&'a Quota, Refusal> {
    state
        .quotas
        .get(&quota_key(filesystem, inode))
        .ok_or_else(|| Refusal::QuotaMissing {
            not_found: state.cluster().release.has(Feature::QuotaNotFoundStatus),
        })
}

/// Begins to remove the quota of a directory.
pub fn delete(
    state: &State,
    filesystem: &str,
    inode: u64,
    moment: &Moment,
) -> Result<(Vec<Change>, Quota), Refusal> {
    let mut quota = get(state, filesystem, inode)?.clone();
    quota
        .removed_at
        .get_or_insert(moment.now + moment.delays.removal);
    Ok((vec![Change::Put(Object::Quota(quota.clone()))], quota))
}

fn check(limits: &Limits) -> Result<(u64, u64), Refusal> {
    let hard = limits.hard_limit_bytes.unwrap_or(UNLIMITED);
    let soft = limits.soft_limit_bytes.unwrap_or(hard);
    for (field, value) in [("hard_limit_bytes", hard), ("soft_limit_bytes", soft)] {
        if value == 0 || value > UNLIMITED {
            return Err(Refusal::Invalid(format!(
                "{field}: {value} is not between 1 and {UNLIMITED}"
            )));
        }
    }
    if soft > hard {
        return Err(Refusal::Invalid(format!(
            "soft_limit_bytes: {soft} is larger than hard_limit_bytes {hard}"
        )));
    }
    Ok((hard, soft))
}

#[cfg(test)]
mod tests;
