//! Volumes that are directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::mount::mount_bind;

use super::{Bare, VOLUMES, blocking};

impl Bare {
    /// A directory, the number by which the array knows it, and its quota.
    pub(super) async fn create_directory(&self, name: &str) -> anyhow::Result<()> {
        let directory = self.places.volumes.join(name);
        blocking(move || {
            fs::create_dir(&directory)?;
            Ok(fs::set_permissions(
                &directory,
                PermissionsExt::from_mode(0o750),
            )?)
        })
        .await?;
        self.limit(&self.uid, &format!("{VOLUMES}/{name}")).await
    }

    /// A bind, and the directory to bind it to.
    pub(super) async fn bind(&self, source: PathBuf, name: &str) -> anyhow::Result<()> {
        let target = self.places.pods.join(name);
        blocking(move || {
            fs::create_dir(&target)?;
            Ok(mount_bind(source, target)?)
        })
        .await
    }

    /// Out of the way; the data is removed later.
    pub(super) async fn delete_directory(&self, name: &str) -> anyhow::Result<()> {
        let (from, to) = (self.places.volumes.join(name), self.places.trash.join(name));
        blocking(move || Ok(fs::rename(from, to)?)).await
    }
}
