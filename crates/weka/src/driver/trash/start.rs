//! Trashes that an earlier process left, looked for at start with the legacy secret.
//!
//! The organization may have many filesystems that hold no volumes: the cluster is asked which of them have a trash, and
//! only those are mounted, a few at a time. None is opened to this node by NFS for it: that is done when a call needs it.

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt as _, stream};

use super::{PREPARATION, Round, key};
use crate::driver::Driver;
use crate::driver::directory::TRASH;
use crate::driver::filesystem::{Managed, WekaFilesystem};
use crate::error::{Error, chain};
use crate::rest::Deadline;

/// How many filesystems are worked on, or asked about, at a time.
pub(super) const AT_A_TIME: usize = 4;

impl Driver {
    /// Looks into the trashes that the legacy secret leads to.
    pub(crate) async fn sweep_by_legacy_secret(self: Arc<Self>) {
        if self.config.keep_trash || self.mounts.nfs.rules.always {
            return;
        }
        match self.find_trashes().await {
            Ok(found) => found.iter().for_each(|filesystem| {
                let is_new = self.trash.state.lock().swept.insert(key(filesystem));
                if is_new {
                    self.begin_emptying(filesystem, false);
                }
            }),
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    error,
                    "Cannot look for trashes now; they are emptied when volumes are created or deleted."
                );
            }
        }
    }

    /// The filesystems that have a trash, where the cluster can tell.
    async fn find_trashes(&self) -> Result<Vec<WekaFilesystem>, Error> {
        let deadline = Deadline::after(PREPARATION);
        let Some(api) = self.clusters.of_legacy_secret(deadline)? else {
            return Ok(Vec::new());
        };
        let facts = api.facts().await?;
        if !facts.resolves_paths() {
            return Ok(Vec::new());
        }
        let asked = api.filesystems().await?.into_iter().map(|filesystem| {
            let managed = Managed {
                api: api.clone(),
                facts: facts.clone(),
                filesystem,
            };
            async move {
                let (api, filesystem) = (&managed.api, &managed.filesystem);
                let trash = api.inode(filesystem, Path::new(TRASH)).await;
                match trash {
                    Ok(trash) => trash.map(|_| managed),
                    Err(error) => {
                        tracing::debug!(%error, filesystem = filesystem.name, "Cannot look for a trash.");
                        None
                    }
                }
            }
        });
        let asked: Vec<_> = asked.collect();
        let found = stream::iter(asked).buffer_unordered(AT_A_TIME);
        let found = found.filter_map(std::future::ready);
        let found = found.map(|managed| WekaFilesystem {
            name: managed.filesystem.name.clone(),
            managed: Some(managed),
        });
        Ok(found.collect().await)
    }

    /// Removes what is in a trash that no call has named yet.
    pub(super) async fn empty_unnamed(&self, filesystem: &WekaFilesystem) -> Result<Round, Error> {
        let _turn = self.trash.unnamed.acquire().await;
        let deadline = Deadline::after(PREPARATION);
        if self.mounts.may_use_nfs(filesystem, deadline).await {
            return Ok(Round::Stuck);
        }
        self.empty(filesystem).await
    }
}
