//! The last step of a creation: the size.

use super::{Creation, Wanted};
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::volume::Existing;
use crate::error::Error;
use crate::quota::{Enforcement, Limits, Size};

impl Creation<'_> {
    /// The size of the volume, if it is complete and what is wanted now.
    pub(super) async fn finished(&self, filesystem: &WekaFilesystem) -> Result<Option<u64>, Error> {
        match self.existing(filesystem).await? {
            Some(existing) => self.finished_as(filesystem, &existing).await,
            None => Ok(None),
        }
    }

    /// The same for a volume that was found.
    pub(super) async fn finished_as(
        &self,
        filesystem: &WekaFilesystem,
        existing: &Existing,
    ) -> Result<Option<u64>, Error> {
        if existing.size().is_none() {
            return Ok(None);
        }
        let size = compare(existing, filesystem, self.wanted)?;
        if let Some(managed) = filesystem.quotas()
            && existing.is_pending()
        {
            let quota = managed.api.await_quota(&managed.filesystem, existing.inode);
            quota.await?;
        }
        Ok(Some(size.bytes))
    }

    pub(super) async fn existing(
        &self,
        filesystem: &WekaFilesystem,
    ) -> Result<Option<Existing>, Error> {
        let (handle, guard) = (&self.wanted.handle, Some(self.guard));
        self.driver
            .existing(filesystem, handle, guard, self.deadline)
            .await
    }

    /// Gives a directory its size: as a quota, or written at it. `seen` is its number as the mount shows it.
    pub(super) async fn set_size(
        &self,
        filesystem: &WekaFilesystem,
        seen: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let (handle, guard) = (&self.wanted.handle, Some(self.guard));
        let Some(managed) = filesystem.quotas() else {
            let recorded = self
                .driver
                .record(filesystem, handle, bytes, guard, self.deadline);
            return recorded.await;
        };
        let inode = self.number(managed, seen).await?;
        let set = managed
            .api
            .set_quota(&managed.filesystem, inode, self.limits(bytes));
        Ok(set.await?)
    }

    /// The limits of a volume of this size, as the class wants them.
    pub(super) fn limits(&self, bytes: u64) -> Limits {
        let parameters = &self.wanted.parameters;
        let size = Size {
            bytes,
            enforcement: parameters.enforcement,
        };
        Limits::new(size, parameters.grace_seconds)
    }

    /// The number by which the cluster knows the directory: it says so itself, where it can; elsewhere it is the number
    /// that the mount shows.
    async fn number(&self, managed: &Managed, seen: u64) -> Result<u64, Error> {
        if !managed.facts.resolves_paths() {
            return Ok(seen);
        }
        let path = self.wanted.handle.path();
        let told = managed.api.inode(&managed.filesystem, &path).await?;
        // A number of another cluster's filesystem would limit somebody else's directory.
        told.ok_or_else(|| managed.other_cluster())
    }
}

/// Whether the volume of this name is what is wanted now.
fn compare(
    existing: &Existing,
    filesystem: &WekaFilesystem,
    wanted: &Wanted,
) -> Result<Size, Error> {
    let size = existing.size().unwrap_or(Size {
        bytes: 0,
        enforcement: Enforcement::Hard,
    });
    let difference = if !wanted.range.contains(size.bytes) {
        format!("{} bytes", size.bytes)
    } else if filesystem.quotas().is_some()
        && existing.is_enforceable()
        && size.enforcement != wanted.parameters.enforcement
    {
        format!("capacityEnforcement {}", size.enforcement)
    } else {
        return Ok(size);
    };
    Err(Error::Incompatible {
        name: wanted.name.clone(),
        difference,
    })
}
