//! The writable snapshot that is a volume, or that a volume is in.

use std::path::PathBuf;

use stowage_host::beneath::Root;

use super::Creation;
use crate::driver::directory;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::error::Error;
use crate::rest::api::NewSnapshot;
use crate::rest::wire::Snapshot;

impl Creation<'_> {
    /// The volume's snapshot, if it is there.
    pub(super) async fn find_snapshot(&self, managed: &Managed) -> Result<Option<Snapshot>, Error> {
        let access_point = self.access_point();
        let found = managed
            .api
            .snapshot(&managed.filesystem, access_point)
            .await?;
        found.map(|found| self.owned(found)).transpose()
    }

    /// Makes the volume's snapshot from another one, or from the filesystem as it is. Returns also whether it was this call
    /// that made it.
    pub(super) async fn make_snapshot(
        &self,
        managed: &Managed,
        source: Option<&str>,
    ) -> Result<(Snapshot, bool), Error> {
        let prefix = &self.driver.config.volumes.volume_prefix;
        let access_point = self.access_point();
        let new = NewSnapshot {
            name: &format!("{prefix}{access_point}"),
            access_point,
            source,
            writable: true,
        };
        let made = managed.api.create_snapshot(&managed.filesystem, &new);
        let (made, is_new) = made.await?;
        Ok((self.owned(made)?, is_new))
    }

    /// Takes away a snapshot whose volume could not be completed.
    pub(super) async fn discard_snapshot(
        &self,
        managed: &Managed,
        snapshot: &Snapshot,
    ) -> Result<(), Error> {
        Ok(managed.api.delete_snapshot(&snapshot.uid).await?)
    }

    /// Gives the root of a filesystem or snapshot to the volume's owner; returns its number.
    pub(super) async fn adopt_root(
        &self,
        filesystem: &WekaFilesystem,
        path: PathBuf,
    ) -> Result<u64, Error> {
        let owner = self.wanted.parameters.owner;
        let work = move |root: &Root| Ok(directory::adopt(root, &path, owner)?.inode);
        let guard = Some(self.guard);
        self.driver
            .within(filesystem, guard, self.deadline, work)
            .await
    }

    /// Only a snapshot that can be the volume is: any other is somebody else's.
    fn owned(&self, snapshot: Snapshot) -> Result<Snapshot, Error> {
        if snapshot.is_volume() {
            return Ok(snapshot);
        }
        Err(Error::AccessPointTaken {
            filesystem: self.wanted.handle.filesystem().to_owned(),
            access_point: self.access_point().to_owned(),
            snapshot: snapshot.name,
        })
    }

    fn access_point(&self) -> &str {
        self.wanted.handle.access_point().unwrap_or_default()
    }
}
