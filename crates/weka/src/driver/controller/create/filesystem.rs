//! A filesystem of its own.

use super::Creation;
use super::encryption::encryption;
use crate::capacity::choose;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::error::Error;
use crate::parameters::NewFilesystemParameters;
use crate::rest::api::NewFilesystem;
use crate::rest::wire::Filesystem;
use crate::rest::{Api, ApiError};
use crate::version::Capability;

/// What needs the API.
const WHAT: &str = "volumes that are filesystems";

impl Creation<'_> {
    pub(super) async fn filesystem(&self, new: &NewFilesystemParameters) -> Result<u64, Error> {
        let api = self.driver.api(self.secrets, WHAT, self.deadline)?;
        let facts = api.facts().await?;
        if !facts.has(Capability::FilesystemVolumes) {
            let too_old = facts.too_old("a volume that is a filesystem", "3.13");
            return Err(too_old.into());
        }
        facts.check_may_write("create a filesystem")?;
        let name = self.wanted.handle.filesystem();
        let found = api.filesystem(name).await?;
        let is_new = found.is_none();
        let bytes = choose(self.wanted.range);
        let found = match found {
            Some(found) if found.is_usable() => found,
            Some(_) => self.usable(&api).await?,
            None => self.make_filesystem(&api, new, bytes).await?,
        };
        let mut filesystem = WekaFilesystem {
            name: name.to_owned(),
            managed: Some(Managed {
                api,
                facts,
                filesystem: found,
            }),
        };
        self.check(&filesystem, "create a filesystem")?;
        if !is_new && let Some(bytes) = self.finished(&filesystem).await? {
            return Ok(bytes);
        }
        filesystem
            .make_room(bytes, true, &self.driver.config.volumes)
            .await?;
        let completed = self.complete_root(&filesystem, bytes).await;
        if let Err(error) = &completed
            && is_new
            && error.is_final()
        {
            self.discard_filesystem(&filesystem).await;
        }
        completed.map(|()| bytes)
    }

    /// Makes the filesystem, and waits until it can be used.
    async fn make_filesystem(
        &self,
        api: &Api,
        new: &NewFilesystemParameters,
        bytes: u64,
    ) -> Result<Filesystem, Error> {
        let rules = &self.driver.config.volumes;
        if !rules.create_filesystems {
            return Err(Error::MayNotCreateFilesystems);
        }
        let facts = api.facts().await?;
        if rules.own_filesystems && !facts.has(Capability::FilesystemOwner) {
            let what = "a filesystem that only its owner may use";
            return Err(facts.too_old(what, "5.1").into());
        }
        let name = self.wanted.handle.filesystem();
        let encrypted = self.wanted.parameters.encrypted;
        let key = if encrypted {
            encryption(api, &new.encryption, rules).await?
        } else {
            None
        };
        let wanted = NewFilesystem {
            name: name.to_owned(),
            group: new.group.clone(),
            bytes: bytes.max(new.least_bytes),
            encrypted,
            without_kms: encrypted && new.encryption.without_kms,
            key,
            owned: rules.own_filesystems,
        };
        let available = api.unprovisioned().await?;
        if wanted.bytes > available {
            return Err(Error::ClusterFull {
                filesystem: wanted.name,
                bytes: wanted.bytes,
                available,
            });
        }
        match api.create_filesystem(&wanted).await {
            Ok(made) if made.is_usable() => Ok(made),
            Ok(_) => self.usable(api).await,
            // Another process may have made it; one of this name that is on its way out is in the way.
            Err(error @ ApiError::Conflict { .. }) => match api.filesystem(name).await? {
                Some(_) => self.usable(api).await,
                None => {
                    tracing::debug!(%error, "A filesystem of this name is in the way.");
                    Err(Error::FilesystemRemoving(name.to_owned()))
                }
            },
            Err(ApiError::Missing { .. }) => Err(Error::GroupMissing(wanted.group)),
            Err(error) => Err(error.into()),
        }
    }

    /// The filesystem, as soon as it can be used.
    async fn usable(&self, api: &Api) -> Result<Filesystem, Error> {
        let name = self.wanted.handle.filesystem();
        let found = api.await_filesystem(name).await?;
        found.ok_or_else(|| Error::FilesystemVanished(name.to_owned()))
    }

    /// Takes away a filesystem whose volume could not be completed.
    async fn discard_filesystem(&self, filesystem: &WekaFilesystem) {
        let removed = self.driver.remove_filesystem(filesystem).await;
        self.report_left(removed);
    }
}
