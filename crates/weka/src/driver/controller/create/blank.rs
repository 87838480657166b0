//! An empty writable snapshot of an existing filesystem.
//!
//! It is made from the seed of the filesystem: a snapshot that was taken when the filesystem was empty. Whoever can write
//! to the filesystem may have replaced it, so it is looked into each time.

use std::path::{Path, PathBuf};

use stowage_host::beneath::Root;

use super::Creation;
use crate::capacity::choose;
use crate::driver::directory;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::volume::{Existing, Recorded};
use crate::error::Error;
use crate::handle::{Handle, SNAPSHOTS};
use crate::name;
use crate::rest::api::NewSnapshot;
use crate::rest::wire::Snapshot;
use crate::version::Capability;

/// What needs the API.
const WHAT: &str = "volumes that are snapshots";

impl Creation<'_> {
    pub(super) async fn blank(&self) -> Result<u64, Error> {
        let name = self.wanted.handle.filesystem();
        let filesystem = self.driver.filesystem(self.secrets, name, self.deadline);
        let mut filesystem = filesystem.await?;
        self.check_release(filesystem.api_for(WHAT)?)?;
        filesystem
            .require(|filesystem| self.check(filesystem, "create a snapshot"))
            .await?;
        let managed = filesystem.api_for(WHAT)?.clone();
        let bytes = choose(self.wanted.range);
        let (snapshot, is_new) = match self.find_snapshot(&managed).await? {
            Some(found) => (found, false),
            None => {
                self.make_room(&mut filesystem, bytes).await?;
                let seed = self.seed(&filesystem, &managed).await?;
                self.make_snapshot(&managed, Some(&seed.uid)).await?
            }
        };
        let completed = self.complete_blank(filesystem, is_new, bytes).await;
        let discard = self.discard_snapshot(&managed, &snapshot);
        self.settle(completed, is_new, discard).await
    }

    /// Makes the snapshot a volume of this size, or of the size that it has.
    async fn complete_blank(
        &self,
        mut filesystem: WekaFilesystem,
        is_new: bool,
        bytes: u64,
    ) -> Result<u64, Error> {
        if !is_new {
            if let Some(existing) = self.existing(&filesystem).await?
                && !self.is_inherited(&filesystem, &existing).await?
                && let Some(bytes) = self.finished_as(&filesystem, &existing).await?
            {
                return Ok(bytes);
            }
            self.make_room(&mut filesystem, bytes).await?;
        }
        self.complete_root(&filesystem, bytes).await?;
        Ok(bytes)
    }

    /// Whether the volume has its size from its seed: it was begun, and has not got one of its own.
    async fn is_inherited(
        &self,
        filesystem: &WekaFilesystem,
        existing: &Existing,
    ) -> Result<bool, Error> {
        let Recorded::Quota(quota) = &existing.recorded else {
            return Ok(false);
        };
        let access_point = name::of_seed(&filesystem.name);
        let seed = Handle::in_snapshot(&filesystem.name, &access_point, None);
        let (driver, deadline) = (self.driver, self.deadline);
        let seed = driver.existing(filesystem, &seed, None, deadline).await?;
        Ok(seed.is_some_and(|seed| match seed.recorded {
            Recorded::Quota(of_seed) => of_seed.limits() == quota.limits(),
            Recorded::Attribute(_) | Recorded::Nowhere => false,
        }))
    }

    /// Makes sure that the filesystem of a snapshot is large enough for it.
    pub(super) async fn make_room(
        &self,
        filesystem: &mut WekaFilesystem,
        bytes: u64,
    ) -> Result<(), Error> {
        let may_grow = self.driver.config.volumes.enlarge_filesystems;
        self.driver.make_room(filesystem, bytes, may_grow).await
    }

    /// Gives the volume's root to its owner, and then its size.
    pub(super) async fn complete_root(
        &self,
        filesystem: &WekaFilesystem,
        bytes: u64,
    ) -> Result<(), Error> {
        let path = self.wanted.handle.path();
        let inode = self.adopt_root(filesystem, path).await?;
        self.set_size(filesystem, inode, bytes).await
    }

    /// Older clusters do not enforce quotas in snapshots, and the oldest have none.
    fn check_release(&self, managed: &Managed) -> Result<(), Error> {
        let allowed = self.driver.config.volumes.any_snapshot_volumes;
        let (needed, since) = if allowed {
            (Capability::FilesystemVolumes, "3.13")
        } else {
            (Capability::SnapshotQuota, "4.2")
        };
        if managed.facts.has(needed) {
            return Ok(());
        }
        let what = "a volume that is a snapshot, with its capacity enforced,";
        Err(managed.facts.too_old(what, since).into())
    }

    /// The empty snapshot to begin with.
    async fn seed(
        &self,
        filesystem: &WekaFilesystem,
        managed: &Managed,
    ) -> Result<Snapshot, Error> {
        let access_point = name::of_seed(&filesystem.name);
        let found = managed.api.snapshot(&managed.filesystem, &access_point);
        let seed = match found.await? {
            Some(seed) => seed,
            None => self.make_seed(filesystem, managed, &access_point).await?,
        };
        let place = Path::new(SNAPSHOTS).join(&access_point);
        match self.any_entry(filesystem, place).await? {
            None => Ok(seed),
            Some(entry) => Err(Error::SeedNotEmpty {
                filesystem: filesystem.name.clone(),
                snapshot: seed.name,
                entry,
            }),
        }
    }

    /// Called twice at once: both get the same one.
    async fn make_seed(
        &self,
        filesystem: &WekaFilesystem,
        managed: &Managed,
        access_point: &str,
    ) -> Result<Snapshot, Error> {
        if let Some(entry) = self.any_entry(filesystem, PathBuf::new()).await? {
            return Err(Error::FilesystemNotEmpty {
                filesystem: filesystem.name.clone(),
                entry,
            });
        }
        let prefix = &self.driver.config.volumes.seed_prefix;
        let new = NewSnapshot {
            name: &format!("{prefix}{access_point}"),
            access_point,
            source: None,
            writable: false,
        };
        let made = managed.api.create_snapshot(&managed.filesystem, &new);
        Ok(made.await?.0)
    }

    async fn any_entry(
        &self,
        filesystem: &WekaFilesystem,
        path: PathBuf,
    ) -> Result<Option<String>, Error> {
        let look = move |root: &Root| directory::any_entry(root, &path);
        let guard = Some(self.guard);
        self.driver
            .within(filesystem, guard, self.deadline, look)
            .await
    }
}
