//! A directory of an existing filesystem.

use rustix::fs::fstatvfs;
use stowage_host::PathError;
use stowage_host::beneath::Root;

use super::Creation;
use crate::capacity::{check_fits, choose};
use crate::driver::directory;
use crate::driver::filesystem::WekaFilesystem;
use crate::error::Error;

impl Creation<'_> {
    /// Makes a directory, gives it to its owner, and then its size.
    pub(super) async fn directory(&self) -> Result<u64, Error> {
        let (driver, name) = (self.driver, self.wanted.handle.filesystem());
        let mut filesystem = driver.filesystem(self.secrets, name, self.deadline).await?;
        filesystem
            .require(|filesystem| self.check(filesystem, "set the quota of a directory"))
            .await?;
        driver.sweep_once(&filesystem);
        if let Some(bytes) = self.finished(&filesystem).await? {
            return Ok(bytes);
        }
        let bytes = choose(self.wanted.range);
        let rules = &driver.config.volumes;
        filesystem
            .make_room(bytes, rules.enlarge_filesystems, rules)
            .await?;
        let handle = &self.wanted.handle;
        let reserved = driver.reserve(&mut filesystem, handle, bytes).await?;
        let (inode, new) = self.make_directory(&filesystem, bytes).await?;
        let sized = self.set_size(&filesystem, inode, bytes).await;
        let discard = self.discard_directory(&filesystem);
        self.settle(sized, new, discard).await?;
        if let Some(reserved) = reserved {
            reserved.keep();
        }
        Ok(bytes)
    }

    /// What can be refused before anything is made.
    pub(super) fn check(
        &self,
        filesystem: &WekaFilesystem,
        doing: &'static str,
    ) -> Result<(), Error> {
        filesystem.check_may_write(doing)?;
        if let Some(managed) = &filesystem.managed
            && self.wanted.parameters.encrypted
            && !managed.filesystem.is_encrypted
        {
            return Err(Error::NotEncrypted(filesystem.name.clone()));
        }
        Ok(())
    }

    async fn make_directory(
        &self,
        filesystem: &WekaFilesystem,
        bytes: u64,
    ) -> Result<(u64, bool), Error> {
        let wanted = self.wanted;
        let (path, owner) = (wanted.handle.path(), wanted.parameters.owner);
        let (name, measured) = (filesystem.name.clone(), filesystem.managed.is_none());
        let work = move |root: &Root| {
            if measured {
                check_fits(&name, bytes, available(root)?)?;
            }
            let (directory, new) = directory::make(root, &path, owner)?;
            Ok((directory.inode, new))
        };
        let guard = Some(self.guard);
        self.driver
            .within(filesystem, guard, self.deadline, work)
            .await
    }

    /// Takes away a directory whose volume could not be completed.
    async fn discard_directory(&self, filesystem: &WekaFilesystem) -> Result<(), Error> {
        let path = self.wanted.handle.path();
        let discard = move |root: &Root| directory::discard(root, &path);
        let guard = Some(self.guard);
        self.driver
            .within(filesystem, guard, self.deadline, discard)
            .await
    }
}

/// What a filesystem without an API has left.
fn available(root: &Root) -> Result<u64, Error> {
    let stat = fstatvfs(root).map_err(PathError::at("read the free space of", "/"))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
