//! The filesystem that a call is about, on a cluster that is asked over its API or, in the old model, not asked at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Driver;
use crate::error::Error;
use crate::handle::Handle;
use crate::quota::Limits;
use crate::rest::facts::Facts;
use crate::rest::wire::{Filesystem, Snapshot};
use crate::rest::{Api, ApiError, Deadline};
use crate::secret::Fingerprint;
use crate::snapshot_id::SnapshotId;
use crate::version::Capability;

/// What stands for the cluster of a filesystem that is used without an API.
const NO_CLUSTER: &str = "local";

/// A filesystem that holds volumes.
#[derive(Clone)]
pub(crate) struct WekaFilesystem {
    pub(crate) name: String,
    pub(crate) managed: Option<Managed>,
}

/// A filesystem of a cluster that can be asked.
#[derive(Clone)]
pub(crate) struct Managed {
    pub(crate) api: Api,
    pub(crate) facts: Arc<Facts>,
    pub(crate) filesystem: Filesystem,
}

/// A cluster that can be asked.
#[derive(Clone, Copy)]
pub(crate) struct AskedCluster<'a> {
    pub(crate) api: &'a Api,
    pub(crate) facts: &'a Facts,
}

impl Managed {
    /// The cluster that it is on.
    pub(crate) fn cluster(&self) -> AskedCluster<'_> {
        AskedCluster {
            api: &self.api,
            facts: &self.facts,
        }
    }

    /// Gives a directory's quota other limits; one that has them already may still be on its way to be active.
    pub(crate) async fn resize_quota(
        &self,
        inode: u64,
        known: Limits,
        wanted: Limits,
    ) -> Result<(), Error> {
        if known == wanted {
            self.api.await_quota(&self.filesystem, inode).await?;
        } else {
            self.api.set_quota(&self.filesystem, inode, wanted).await?;
        }
        Ok(())
    }

    /// The snapshot of a volume that an identifier names.
    pub(crate) async fn snapshot_of(&self, id: &SnapshotId) -> Result<Option<Snapshot>, Error> {
        let found = self.api.snapshot(&self.filesystem, id.access_point());
        Ok(found.await?.filter(|found| id.is_called(&found.name)))
    }

    /// The snapshot that a volume is, or is in; none for a volume of the filesystem as it is.
    pub(crate) async fn snapshot_holding(
        &self,
        volume: &Handle,
    ) -> Result<Option<Snapshot>, Error> {
        let Some(access_point) = volume.access_point() else {
            return Ok(None);
        };
        let found = self.api.snapshot(&self.filesystem, access_point).await?;
        let missing = || Error::VolumeMissing(volume.to_string());
        found.ok_or_else(missing).map(Some)
    }

    /// What this node mounts under the filesystem's name is another cluster's.
    pub(crate) fn other_cluster(&self) -> Error {
        Error::OtherCluster {
            filesystem: self.filesystem.name.clone(),
            cluster: self.facts.name.clone(),
        }
    }
}

impl WekaFilesystem {
    /// Identifies the cluster.
    pub(crate) fn cluster(&self) -> &str {
        self.managed
            .as_ref()
            .map_or(NO_CLUSTER, |managed| &managed.facts.guid)
    }

    /// The organization of the credentials; none without an API.
    pub(crate) fn organization(&self) -> &str {
        self.managed
            .as_ref()
            .map_or("", |managed| &managed.api.client().credentials.organization)
    }

    /// Identifies the credentials; none without an API.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        let managed = self.managed.as_ref();
        managed.map(|managed| managed.api.client().credentials.fingerprint)
    }

    /// Identifies the filesystem within its cluster: one that was deleted and made again is another.
    pub(crate) fn uid(&self) -> &str {
        self.managed
            .as_ref()
            .map_or(&self.name, |managed| &managed.filesystem.uid)
    }

    /// The cluster, if it keeps sizes as quotas.
    pub(crate) fn quotas(&self) -> Option<&Managed> {
        self.managed
            .as_ref()
            .filter(|managed| managed.facts.has(Capability::DirectoryQuota))
    }

    /// Gives a directory its first quota. False if the array keeps none, or gives none to a directory with files in it.
    pub(crate) async fn enforce(
        &self,
        handle: &Handle,
        inode: u64,
        limits: Limits,
    ) -> Result<bool, Error> {
        let Some(managed) = self.quotas() else {
            return Ok(false);
        };
        let set = managed.api.set_quota(&managed.filesystem, inode, limits);
        match set.await {
            Ok(()) => Ok(true),
            Err(error @ ApiError::Refused { .. }) => {
                tracing::warn!(%error, volume_id = %handle, "Cannot set a quota for the volume; its size stays advisory.");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a user who could not finish what is about to begin.
    pub(crate) fn check_may_write(&self, doing: &'static str) -> Result<(), ApiError> {
        self.quotas()
            .map_or(Ok(()), |managed| managed.facts.check_may_write(doing))
    }

    /// Refuses credentials that could not mount the filesystem themselves: one that requires authentication may be mounted
    /// already, for others.
    pub(crate) async fn check_may_mount(&self) -> Result<(), Error> {
        if let Some(managed) = &self.managed
            && managed.filesystem.auth_required
        {
            managed.api.mount_token(&managed.filesystem).await?;
        }
        Ok(())
    }

    /// The cluster, for what cannot be done without it.
    pub(crate) fn api_for(&self, what: &'static str) -> Result<&Managed, Error> {
        self.managed.as_ref().ok_or(Error::NeedsApi(what))
    }

    /// Refuses what does not hold for the filesystem. One that was remembered is looked up again before.
    pub(crate) async fn require(
        &mut self,
        check: impl Fn(&Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let (Err(_), Some(managed)) = (check(self), &mut self.managed) {
            let found = managed.api.filesystem(&self.name).await?;
            let missing = || Error::FilesystemMissing(self.name.clone());
            managed.filesystem = found.ok_or_else(missing)?;
        }
        check(self)
    }

    /// What the mount does not show must not be on the cluster either, if it can answer that: otherwise it is not that cluster's
    /// filesystem that is mounted.
    pub(crate) async fn confirm_missing(&self, path: &Path) -> Result<(), Error> {
        let able = |managed: &&Managed| managed.facts.resolves_paths();
        let Some(managed) = self.managed.as_ref().filter(able) else {
            return Ok(());
        };
        match managed.api.inode(&managed.filesystem, path).await? {
            None => Ok(()),
            Some(_) => Err(managed.other_cluster()),
        }
    }

    /// The same filesystem with other time.
    pub(crate) fn until(&self, deadline: Deadline) -> Self {
        let mut filesystem = self.clone();
        if let Some(managed) = &mut filesystem.managed {
            managed.api = managed.api.until(deadline);
        }
        filesystem
    }
}

impl Driver {
    /// Removes a filesystem that is a volume, and who may mount it by NFS: the array keeps what somebody may mount, and nodes may
    /// do so where this process does not.
    ///
    /// Called twice: it is gone, or on its way out.
    pub(crate) async fn remove_filesystem(&self, filesystem: &WekaFilesystem) -> Result<(), Error> {
        let Managed {
            api,
            filesystem: found,
            ..
        } = filesystem.api_for("volumes that are filesystems")?;
        self.mounts.let_go(filesystem).await;
        if self.config.nfs.is_possible() {
            api.revoke_nfs(&found.name).await?;
        }
        match api.delete_filesystem(found).await {
            Err(error @ (ApiError::Refused { .. } | ApiError::Conflict { .. })) => {
                if !api.revoke_nfs(&found.name).await? {
                    return Err(error.into());
                }
                Ok(api.delete_filesystem(found).await?)
            }
            deleted => Ok(deleted?),
        }
    }

    /// The filesystem of this name on the cluster of a request, as it is or was a moment ago.
    pub(crate) async fn filesystem(
        &self,
        secrets: &BTreeMap<String, String>,
        name: &str,
        deadline: Deadline,
    ) -> Result<WekaFilesystem, Error> {
        let api = self.clusters.of_request(secrets, deadline)?;
        self.filesystem_of(api, name).await
    }

    /// The API of the cluster of a request that needs it for this.
    pub(crate) fn api(
        &self,
        secrets: &BTreeMap<String, String>,
        what: &'static str,
        deadline: Deadline,
    ) -> Result<Api, Error> {
        let api = self.clusters.of_request(secrets, deadline)?;
        api.ok_or(Error::NeedsApi(what))
    }

    /// The filesystem of this name on a cluster, as it is or was a moment ago.
    pub(crate) async fn filesystem_of(
        &self,
        api: Option<Api>,
        name: &str,
    ) -> Result<WekaFilesystem, Error> {
        let managed = match api {
            None => None,
            Some(api) => {
                let facts = api.facts().await?;
                let found = api.recent_filesystem(name).await?;
                let found = found.ok_or_else(|| Error::FilesystemMissing(name.to_owned()))?;
                Some(Managed {
                    api,
                    facts,
                    filesystem: found,
                })
            }
        };
        Ok(WekaFilesystem {
            name: name.to_owned(),
            managed,
        })
    }
}
