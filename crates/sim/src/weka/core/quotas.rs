//! Quotas: decided in the state, kept by ledgers next to the files.

use std::io;
use std::path::PathBuf;

use super::{Core, Failure};
use crate::files::ledger::Record;
use crate::moment::now;
use crate::weka::backing::{self, Found};
use crate::weka::release::Feature;
use crate::weka::state::filesystems::next_number;
use crate::weka::state::objects::quota_key;
use crate::weka::state::quotas::{self, Directory, Limits, Status};
use crate::weka::state::{Change, Filesystem, Kind, Millis, Object, Quota, Refusal, Snapshot};

/// The limits of a quota that has no effect.
const NEVER: Millis = Millis::MAX;

/// Between the state and the ledger of a quota nobody else may look at both.
#[derive(Debug)]
pub(super) struct Locks([tokio::sync::Mutex<()>; 64]);

impl Default for Locks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| tokio::sync::Mutex::default()))
    }
}

impl Locks {
    async fn lock(&self, inode: u64) -> tokio::sync::MutexGuard<'_, ()> {
        let slot = usize::try_from(inode % 64).unwrap_or(0);
        self.0[slot].lock().await
    }
}

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
        let _lock = self.quota_locks.lock(inode).await;
        self.forget_stale(&filesystem.uid, inode).await?;
        let quota = self
            .change(|state, moment| quotas::set(state, filesystem, &directory, limits, moment))
            .await?;
        self.write_ledger(&quota, found.behind).await?;
        Ok(quota)
    }

    /// Gives a snapshot the quotas of what it was made from: what is in its directories was counted there already.
    pub async fn inherit_quotas(&self, snapshot: &Snapshot) -> Result<(), Failure> {
        let uid = &snapshot.filesystem;
        let (filesystem, quotas) = self.read(|state, _| {
            let of_source = |quota: &&Quota| {
                quota.filesystem == *uid
                    && quota.snapshot == snapshot.source
                    && quota.removed_at.is_none()
            };
            let quotas: Vec<_> = state.quotas.values().filter(of_source).cloned().collect();
            (state.filesystems.get(uid).cloned(), quotas)
        });
        let Some(filesystem) = filesystem else {
            return Ok(());
        };
        for quota in quotas {
            let Some(found) = self.find(&filesystem, quota.inode).await? else {
                continue;
            };
            let copy = self.backing.copy_of(&found, uid, &snapshot.access_point);
            if let Some(copy) = copy {
                self.inherit(snapshot, quota, copy).await?;
            }
        }
        Ok(())
    }

    async fn inherit(
        &self,
        snapshot: &Snapshot,
        quota: Quota,
        copy: PathBuf,
    ) -> Result<(), Failure> {
        let inode = backing::inode_of(&copy.symlink_metadata()?);
        let quota = self
            .change(|state, _| {
                let (number, counted) = next_number(state.cluster());
                let quota = Quota {
                    inode,
                    number,
                    snapshot: Some(snapshot.uid.clone()),
                    ..quota
                };
                let put = Change::Put(Object::Quota(quota.clone()));
                Ok((vec![counted, put], quota))
            })
            .await?;
        self.write_ledger(&quota, copy).await
    }

    /// Lets frontends keep the limits of a quota.
    async fn write_ledger(&self, quota: &Quota, directory: PathBuf) -> Result<(), Failure> {
        let enforced = quota.snapshot.is_none()
            || self.read(|state, _| state.cluster().release.has(Feature::SnapshotQuota));
        let record = Record {
            hard: quota.hard_limit_bytes,
            soft: quota.soft_limit_bytes,
            grace: quota.grace_seconds.saturating_mul(1000),
            active_at: quota.active_at.filter(|_| enforced).unwrap_or(NEVER),
            ..Record::default()
        };
        let (ledgers, inode) = (self.backing.ledgers(&quota.filesystem), quota.inode);
        let write = move || ledgers.set(inode, record, || backing::usage(&directory));
        let written = tokio::task::spawn_blocking(write).await;
        Ok(written.map_err(io::Error::other)??)
    }

    /// Quotas that are being added count from now on. Called twice: they do.
    pub(super) async fn finish_quotas(&self) -> Result<(), Failure> {
        let adding = self.read(|state, now| {
            let adding = |quota: &&Quota| quota.status(now) == Status::Adding;
            let of = |quota: &Quota| state.filesystems.get(&quota.filesystem).cloned();
            let all = state.quotas.values().filter(adding);
            all.filter_map(|quota| Some((of(quota)?, quota.inode)))
                .collect::<Vec<_>>()
        });
        for (filesystem, inode) in adding {
            let Some(found) = self.find(&filesystem, inode).await? else {
                continue;
            };
            let _lock = self.quota_locks.lock(inode).await;
            let quota = self
                .change(|state, moment| {
                    let mut quota = quotas::get(state, &filesystem.uid, inode)?.clone();
                    quota.active_at = Some(moment.now);
                    Ok((vec![Change::Put(Object::Quota(quota.clone()))], quota))
                })
                .await?;
            self.write_ledger(&quota, found.behind).await?;
        }
        Ok(())
    }

    /// The quota of a directory, and the bytes in it. A quota goes with its directory.
    pub async fn quota(&self, filesystem: &str, inode: u64) -> Result<(Quota, u64), Failure> {
        let _lock = self.quota_locks.lock(inode).await;
        let used = self.forget_stale(filesystem, inode).await?;
        let quota = self.read(|state, _| quotas::get(state, filesystem, inode).cloned())?;
        Ok((quota, used))
    }

    /// Bytes in a directory; forgets a quota whose directory is gone, for another may get its inode.
    async fn forget_stale(&self, filesystem: &str, inode: u64) -> Result<u64, Failure> {
        if let Some(record) = self.backing.ledgers(filesystem).read(inode)? {
            return Ok(record.used);
        }
        let key = quota_key(filesystem, inode);
        if self.read(|state, _| state.quotas.contains_key(&key)) {
            let kind = Kind::Quota;
            self.put(vec![Change::Remove { kind, key }]).await?;
        }
        Ok(0)
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
        let snapshot = self.read(|state, _| {
            let access_point = found.access_point.as_ref()?;
            state
                .snapshots
                .values()
                .find(|s| s.filesystem == filesystem.uid && s.access_point == *access_point)
                .map(|s| s.uid.clone())
        });
        Ok(Directory {
            inode,
            empty: found.is_empty()?,
            snapshot,
        })
    }
}
