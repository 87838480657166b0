//! Quotas: decided in the state, kept by ledgers next to the files.

use std::io;

use super::{Core, Failure, now};
use crate::weka::backing::{self, Found};
use crate::weka::ledger::Record;
use crate::weka::release::Feature;
use crate::weka::state::objects::quota_key;
use crate::weka::state::quotas::{self, Directory, Limits};
use crate::weka::state::{Change, Filesystem, Kind, Millis, Quota, Refusal};

/// The limits of a quota that has no effect.
const NEVER: Millis = Millis::MAX;

impl Core {
    /// Sets the quota of a directory.
    pub async fn set_quota(
        &self,
        filesystem: &Filesystem,
        inode: u64,
        limits: &Limits,
    ) -> Result<Quota, Failure> {
        let found = self
            .find(filesystem, inode)
            .await?
            .ok_or(Refusal::InodeMissing(inode))?;
        let directory = self.directory(filesystem, inode, &found)?;
        let enforced = directory.snapshot.is_none()
            || self.read(|state, _| state.cluster().release.has(Feature::SnapshotQuota));
        let quota = self
            .change(|state, moment| quotas::set(state, filesystem, &directory, limits, moment))
            .await?;
        let record = Record {
            hard: quota.hard_limit_bytes,
            soft: quota.soft_limit_bytes,
            grace: quota.grace_seconds.saturating_mul(1000),
            active_at: quota.active_at.filter(|_| enforced).unwrap_or(NEVER),
            ..Record::default()
        };
        let ledgers = self.backing.ledgers(&filesystem.uid);
        tokio::task::spawn_blocking(move || {
            ledgers.set(inode, record, || backing::usage(&found.behind))
        })
        .await
        .map_err(io::Error::other)??;
        Ok(quota)
    }

    /// The quota of a directory, and the bytes in it. A quota goes with its directory.
    pub async fn quota(&self, filesystem: &str, inode: u64) -> Result<(Quota, u64), Failure> {
        let quota = self.read(|state, now| quotas::get(state, filesystem, inode, now).cloned())?;
        if let Some(record) = self.backing.ledgers(filesystem).read(inode)? {
            return Ok((quota, record.used));
        }
        let key = quota_key(filesystem, inode);
        let gone = Change::Remove {
            kind: Kind::Quota,
            key,
        };
        self.put(vec![gone]).await?;
        Err(self
            .read(|state, now| quotas::get(state, filesystem, inode, now).cloned())
            .err()
            .unwrap_or(Refusal::InodeMissing(inode))
            .into())
    }

    /// Begins to remove the quota of a directory.
    pub async fn delete_quota(&self, filesystem: &str, inode: u64) -> Result<(), Failure> {
        let quota = self
            .change(|state, moment| quotas::delete(state, filesystem, inode, moment))
            .await?;
        if quota.removed_at.is_some_and(|at| at <= now()) {
            self.sweep().await?;
        }
        Ok(())
    }

    /// Where a directory is.
    pub async fn find(
        &self,
        filesystem: &Filesystem,
        inode: u64,
    ) -> Result<Option<Found>, Failure> {
        let backing = self.backing.clone();
        let uid = filesystem.uid.clone();
        Ok(
            tokio::task::spawn_blocking(move || backing.find(&uid, inode))
                .await
                .map_err(io::Error::other)??,
        )
    }

    pub(super) fn drop_ledger(&self, quota_key: &str) -> io::Result<()> {
        match quota_key.split_once('/') {
            Some((filesystem, inode)) => match inode.parse() {
                Ok(inode) => self.backing.ledgers(filesystem).remove(inode),
                Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn directory(
        &self,
        filesystem: &Filesystem,
        inode: u64,
        found: &Found,
    ) -> Result<Directory, Failure> {
        let snapshot = self.read(|state, now| {
            let access_point = found.access_point.as_ref()?;
            state
                .snapshots
                .values()
                .find(|s| {
                    s.filesystem == filesystem.uid
                        && s.access_point == *access_point
                        && s.is_there(now)
                })
                .map(|s| s.uid.clone())
        });
        Ok(Directory {
            inode,
            empty: found.is_empty()?,
            snapshot,
        })
    }
}
