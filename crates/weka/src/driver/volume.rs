//! What is known of a volume: where it is, and how large it is meant to be.

use stowage_host::beneath::Root;

use super::directory::{self, Place};
use super::filesystem::{Managed, WekaFilesystem};
use super::{Driver, Guard};
use crate::error::Error;
use crate::handle::Handle;
use crate::options::Options;
use crate::quota::{Enforcement, Size};
use crate::rest::Deadline;
use crate::rest::wire::{Quota, QuotaStatus, Snapshot};

/// How the controller mounts: attributes of directories need `acl`.
const CONTROLLER_OPTIONS: &str = "acl,writecache";

/// A volume that exists.
#[derive(Debug)]
pub(crate) struct Existing {
    pub(crate) inode: u64,
    pub(crate) recorded: Recorded,
}

/// Where the size of a volume is written.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// As a quota.
    Quota(Quota),
    /// At the directory, as it was before there were quotas: a number that nobody enforces.
    Attribute(u64),
    /// Nowhere: a volume that is half-made, or one that a person made.
    Nowhere,
}

impl Existing {
    /// The size, if it is known.
    pub(crate) fn size(&self) -> Option<Size> {
        match &self.recorded {
            Recorded::Quota(quota) => Some(quota.limits().into()),
            Recorded::Attribute(bytes) => Some(Size {
                bytes: *bytes,
                enforcement: Enforcement::Soft,
            }),
            Recorded::Nowhere => None,
        }
    }

    /// Whether something enforces the size.
    pub(crate) fn is_enforceable(&self) -> bool {
        matches!(self.recorded, Recorded::Quota(_))
    }

    /// Whether a quota is there that is not enforced yet.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(&self.recorded, Recorded::Quota(quota) if quota.status != QuotaStatus::Active)
    }
}

impl Driver {
    /// Does something in a filesystem, on a thread that can be left.
    pub(crate) async fn within<T, W>(
        &self,
        filesystem: &WekaFilesystem,
        guard: Option<&Guard>,
        deadline: Deadline,
        work: W,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnOnce(&Root) -> Result<T, Error> + Send + 'static,
    {
        self.within_as(
            filesystem,
            &Options::parse(CONTROLLER_OPTIONS),
            guard,
            deadline,
            work,
        )
        .await
    }

    /// The same with other mount options.
    pub(crate) async fn within_as<T, W>(
        &self,
        filesystem: &WekaFilesystem,
        options: &Options,
        guard: Option<&Guard>,
        deadline: Deadline,
        work: W,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnOnce(&Root) -> Result<T, Error> + Send + 'static,
    {
        let guard = guard.cloned();
        let work = move |root: &Root| {
            // Until the work has ended: the caller may give up before.
            let _guard = guard;
            work(root)
        };
        let done = self.mounts.within(filesystem, options, deadline, work);
        done.await
    }

    /// The volume with this handle, if it exists. The filesystem is mounted only where the cluster cannot answer that.
    pub(crate) async fn existing(
        &self,
        filesystem: &WekaFilesystem,
        handle: &Handle,
        guard: Option<&Guard>,
        deadline: Deadline,
    ) -> Result<Option<Existing>, Error> {
        let place = Place::of(handle, &self.config.dynamic_paths);
        let path = place.path.clone();
        if let Some(managed) = filesystem.quotas()
            && managed.facts.resolves_paths()
        {
            let Some(inode) = managed.api.inode(&managed.filesystem, &place.path).await? else {
                return Ok(None);
            };
            if let Some(quota) = managed.api.quota(&managed.filesystem, inode).await? {
                let recorded = Recorded::Quota(quota);
                return Ok(Some(Existing { inode, recorded }));
            }
        }
        let look = move |root: &Root| match directory::find(root, &place)? {
            Some(directory) => Ok(Some((directory.inode, directory.recorded_bytes()?))),
            None => Ok(None),
        };
        let Some((inode, bytes)) = self.within(filesystem, guard, deadline, look).await? else {
            filesystem.confirm_missing(&path).await?;
            return Ok(None);
        };
        let quota = match filesystem.quotas() {
            Some(managed) => managed.api.quota(&managed.filesystem, inode).await?,
            None => None,
        };
        let recorded = match (quota, bytes) {
            (Some(quota), _) => Recorded::Quota(quota),
            (None, Some(bytes)) => Recorded::Attribute(bytes),
            (None, None) => Recorded::Nowhere,
        };
        Ok(Some(Existing { inode, recorded }))
    }

    /// Deletes a snapshot on the array.
    pub(crate) async fn delete_snapshot(
        &self,
        managed: &Managed,
        snapshot: &Snapshot,
    ) -> Result<(), Error> {
        managed.api.delete_snapshot(&snapshot.uid).await?;
        if self.config.volumes.await_deletion {
            managed.api.await_no_snapshot(&snapshot.uid).await?;
        }
        Ok(())
    }

    /// Waits for a snapshot that an earlier call may have deleted, if anybody wants that.
    pub(crate) async fn await_deleted(
        &self,
        managed: &Managed,
        access_point: &str,
    ) -> Result<(), Error> {
        if self.config.volumes.await_deletion {
            let (api, filesystem) = (&managed.api, &managed.filesystem);
            api.await_no_snapshot_at(filesystem, access_point).await?;
        }
        Ok(())
    }

    /// The volume with this handle.
    pub(crate) async fn required(
        &self,
        filesystem: &WekaFilesystem,
        handle: &Handle,
        guard: Option<&Guard>,
        deadline: Deadline,
    ) -> Result<Existing, Error> {
        let existing = self.existing(filesystem, handle, guard, deadline).await?;
        existing.ok_or_else(|| Error::VolumeMissing(handle.to_string()))
    }

    /// Writes the size at the directory of a volume.
    pub(crate) async fn record(
        &self,
        filesystem: &WekaFilesystem,
        handle: &Handle,
        bytes: u64,
        guard: Option<&Guard>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let place = Place::of(handle, &self.config.dynamic_paths);
        let handle = handle.clone();
        let write = move |root: &Root| {
            let found = directory::find(root, &place)?;
            let found = found.ok_or_else(|| Error::VolumeMissing(handle.to_string()))?;
            found.record(&handle, bytes)
        };
        self.within(filesystem, guard, deadline, write).await
    }
}
