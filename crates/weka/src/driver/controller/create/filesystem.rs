//! A filesystem of its own.

use stowage_csi::proto::csi::CreateVolumeRequest;

use super::Creation;
use super::encryption::encryption;
use crate::capacity::choose;
use crate::driver::Driver;
use crate::driver::filesystem::{AskedCluster, Managed, WekaFilesystem};
use crate::error::{Error, FullError};
use crate::name;
use crate::parameters::NewFilesystemParameters;
use crate::rest::api::NewFilesystem;
use crate::rest::wire::Filesystem;
use crate::rest::{Api, ApiError, Deadline};
use crate::version::Capability;

/// What needs the API.
const WHAT: &str = "volumes that are filesystems";

/// The name of the filesystem, if it was made when the prefix of volumes was another one: a second one would be made beside
/// it. Filesystems of other prefixes are not made any more, so names that are a moment old do.
pub(super) async fn name_before(
    driver: &Driver,
    request: &CreateVolumeRequest,
    deadline: Deadline,
) -> Result<Option<String>, Error> {
    let api = driver.api(&request.secrets, WHAT, deadline)?;
    let (prefix, object) = (
        &driver.config.volumes.volume_prefix,
        name::object(&request.name),
    );
    let names = api.recent_filesystem_names().await?;
    let mut names = names.iter();
    let Some(before) = names.find(|one| name::has_other_prefix(one, prefix, &object)) else {
        return Ok(None);
    };
    // The one with the prefix of today comes first.
    let of_today = api.filesystem(&format!("{prefix}{object}")).await?;
    if of_today.is_some() || api.filesystem(before).await?.is_none() {
        return Ok(None);
    }
    Ok(Some(before.clone()))
}

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
        let bytes = choose(self.wanted.range);
        let (found, is_new) = match api.filesystem(name).await? {
            Some(found) => (found, false),
            None => self.make_filesystem(&api, new, bytes).await?,
        };
        let filesystem = WekaFilesystem {
            name: name.to_owned(),
            managed: Some(Managed {
                api,
                facts,
                filesystem: found,
            }),
        };
        let completed = self.complete_filesystem(filesystem.clone(), is_new, bytes);
        let completed = completed.await;
        let discard = self.driver.remove_filesystem(&filesystem);
        self.settle(completed, is_new, discard).await
    }

    /// Waits until the filesystem can be used, and makes it a volume of this size, or of the size that it has.
    async fn complete_filesystem(
        &self,
        mut filesystem: WekaFilesystem,
        is_new: bool,
        bytes: u64,
    ) -> Result<u64, Error> {
        if let Some(managed) = &mut filesystem.managed
            && !managed.filesystem.is_usable()
        {
            managed.filesystem = self.usable(&managed.api).await?;
        }
        self.check(&filesystem, "create a filesystem")?;
        if !is_new && let Some(bytes) = self.finished(&filesystem).await? {
            return Ok(bytes);
        }
        self.driver.make_room(&mut filesystem, bytes, true).await?;
        self.complete_root(&filesystem, bytes).await?;
        Ok(bytes)
    }

    /// Makes the filesystem, which takes a moment until it can be used. Returns also whether it was this call that made it.
    async fn make_filesystem(
        &self,
        api: &Api,
        new: &NewFilesystemParameters,
        bytes: u64,
    ) -> Result<(Filesystem, bool), Error> {
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
            return Err(FullError::ClusterFull {
                filesystem: wanted.name,
                bytes: wanted.bytes,
                available,
            }
            .into());
        }
        // It is of no use where this node could not mount it.
        let cluster = AskedCluster { api, facts: &facts };
        let able = self.driver.mounts.check_able(cluster, self.deadline);
        able.await?;
        self.ask_for(api, wanted).await
    }

    /// Asks for the filesystem. Called twice: it is there, and not made by this call.
    async fn ask_for(&self, api: &Api, wanted: NewFilesystem) -> Result<(Filesystem, bool), Error> {
        let name = self.wanted.handle.filesystem();
        match api.create_filesystem(&wanted).await {
            Ok(made) => Ok((made, true)),
            // Another process may have made it; one of this name that is on its way out is in the way.
            Err(error @ ApiError::Conflict { .. }) => match api.filesystem(name).await? {
                Some(found) => Ok((found, false)),
                None => {
                    tracing::debug!(%error, "A filesystem of this name is in the way.");
                    Err(Error::FilesystemRemoving(name.to_owned()))
                }
            },
            Err(ApiError::Missing { .. }) => Err(Error::GroupMissing(wanted.group)),
            // Others have taken what was left a moment ago.
            Err(source) if source.is_no_room() => Err(FullError::NoRoom {
                filesystem: wanted.name,
                bytes: wanted.bytes,
                source,
            }
            .into()),
            Err(error) => Err(error.into()),
        }
    }

    /// The filesystem, as soon as it can be used.
    async fn usable(&self, api: &Api) -> Result<Filesystem, Error> {
        let name = self.wanted.handle.filesystem();
        let found = api.await_filesystem(name).await?;
        found.ok_or_else(|| Error::FilesystemVanished(name.to_owned()))
    }
}
