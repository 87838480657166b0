//! A directory of an existing filesystem.

use rustix::fs::fstatvfs;
use stowage_host::PathError;
use stowage_host::beneath::Root;

use super::Creation;
use crate::capacity::{check_fits, choose};
use crate::driver::directory;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::driver::volume::Existing;
use crate::error::Error;
use crate::rest::ApiError;
use crate::rest::error::AccessError;

/// What there is of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Nothing,
    /// What an earlier call, or another process, made.
    Before,
    Now,
}

impl Creation<'_> {
    pub(super) async fn directory(&self) -> Result<u64, Error> {
        let (driver, name) = (self.driver, self.wanted.handle.filesystem());
        let mut filesystem = driver.filesystem(self.secrets, name, self.deadline).await?;
        filesystem
            .require(|filesystem| self.check(filesystem, "set the quota of a directory"))
            .await?;
        driver.sweep_once(&filesystem);
        let found = self.look(&filesystem).await?;
        let mut begun = match found {
            Some(_) => Begun::Before,
            None => Begun::Nothing,
        };
        let completed = self.complete_directory(&mut filesystem, found, &mut begun);
        let completed = completed.await;
        if begun == Begun::Nothing {
            return completed;
        }
        let discard = self.discard_directory(&filesystem);
        self.settle(completed, begun == Begun::Now, discard).await
    }

    /// What there is of the volume. A failure must not end the call for good where an earlier one may have made the
    /// directory: the caller would forget it.
    async fn look(&self, filesystem: &WekaFilesystem) -> Result<Option<Existing>, Error> {
        let error = match self.existing(filesystem).await {
            Err(error) if error.is_final() && !never_worked(&error) => error,
            looked => return looked,
        };
        let (id, source) = (self.wanted.handle.to_string(), Box::new(error));
        match self.is_on_cluster(filesystem).await {
            Some(false) => Err(*source),
            Some(true) => Err(Error::HalfMade { id, source }),
            None => Err(Error::Unseen { id, source }),
        }
    }

    /// Whether the directory is there, if the cluster can tell.
    async fn is_on_cluster(&self, filesystem: &WekaFilesystem) -> Option<bool> {
        let able = |managed: &&Managed| managed.facts.resolves_paths();
        let managed = filesystem.managed.as_ref().filter(able)?;
        let path = self.wanted.handle.path();
        let inode = managed.api.inode(&managed.filesystem, &path).await;
        Some(inode.ok()?.is_some())
    }

    /// Makes a directory, gives it to its owner, and then its size, unless it has it.
    async fn complete_directory(
        &self,
        filesystem: &mut WekaFilesystem,
        found: Option<Existing>,
        begun: &mut Begun,
    ) -> Result<u64, Error> {
        if let Some(found) = found
            && let Some(bytes) = self.finished_as(filesystem, &found).await?
        {
            return Ok(bytes);
        }
        let bytes = choose(self.wanted.range);
        self.make_room(filesystem, bytes).await?;
        let handle = &self.wanted.handle;
        let reserved = self.driver.reserve(filesystem, handle, bytes).await?;
        let (is_new, inode) = self.make_directory(filesystem, bytes).await?;
        *begun = if is_new { Begun::Now } else { Begun::Before };
        self.set_size(filesystem, inode?, bytes).await?;
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

    /// Makes the directory. Returns whether it is new, and its number if it could be given to its owner.
    async fn make_directory(
        &self,
        filesystem: &WekaFilesystem,
        bytes: u64,
    ) -> Result<(bool, Result<u64, Error>), Error> {
        let wanted = self.wanted;
        let (path, owner) = (wanted.handle.path(), wanted.parameters.owner);
        let (name, measured) = (filesystem.name.clone(), filesystem.managed.is_none());
        let work = move |root: &Root| {
            if measured {
                check_fits(&name, bytes, available(root)?)?;
            }
            let made = directory::make(root, &path, owner)?;
            Ok((made.is_new, made.directory.map(|it| it.inode)))
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

/// Whether no earlier call can have come further.
fn never_worked(error: &Error) -> bool {
    matches!(
        error,
        Error::NeedsApi(_) | Error::Access(AccessError::Api(ApiError::TooOld { .. }))
    )
}

/// What a filesystem without an API has left.
fn available(root: &Root) -> Result<u64, Error> {
    let stat = fstatvfs(root).map_err(PathError::at("read the free space of", "/"))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
