//! Room for volumes in a filesystem, which may grow for it.
//!
//! A filesystem is told its whole size, not how much more it gets: two calls that decide at the same time would undo each other.
//! So one at a time looks at a filesystem and enlarges it.

use stowage_csi::turns::Turns;

use super::Driver;
use super::filesystem::{Managed, WekaFilesystem};
use crate::capacity::{check_fits, grow_thin};
use crate::config::VolumeRules;
use crate::error::{Error, FullError};
use crate::rest::wire::Filesystem;

/// The filesystems that may be about to grow, by cluster and uid.
pub(crate) type Growing = Turns<[String; 2]>;

impl Driver {
    /// Makes sure that a volume is not larger than all of the filesystem, where that is known: a filesystem that may grow
    /// is enlarged, all others refuse the volume.
    ///
    /// Called twice: it is large enough.
    pub(crate) async fn make_room(
        &self,
        filesystem: &mut WekaFilesystem,
        bytes: u64,
        may_grow: bool,
    ) -> Result<(), Error> {
        let fits = |filesystem: &WekaFilesystem| filesystem.check_fits(bytes);
        if !may_grow || fits(filesystem).is_ok() {
            return filesystem.require(fits).await;
        }
        let key = [filesystem.cluster(), filesystem.uid()].map(str::to_owned);
        let _alone = self.growing.wait(key).await;
        // Somebody may have enlarged it meanwhile: it is looked up again.
        match (filesystem.require(fits).await, &mut filesystem.managed) {
            (Err(Error::Size(_)), Some(managed)) => {
                managed.filesystem = managed.enlarge(bytes, &self.config.volumes).await?;
                Ok(())
            }
            (checked, _) => checked,
        }
    }
}

impl WekaFilesystem {
    fn check_fits(&self, bytes: u64) -> Result<(), Error> {
        if let Some(managed) = &self.managed {
            check_fits(&self.name, bytes, managed.filesystem.total_budget)?;
        }
        Ok(())
    }
}

impl Managed {
    /// Gives the filesystem this size, if the cluster has it.
    async fn enlarge(&self, bytes: u64, rules: &VolumeRules) -> Result<Filesystem, Error> {
        self.facts
            .check_may_write("change the size of a filesystem")?;
        let total = self.filesystem.total_budget;
        let more = bytes.saturating_sub(total);
        let available = self.api.unprovisioned().await?;
        if more > available {
            return Err(FullError::ClusterFull {
                filesystem: self.filesystem.name.clone(),
                bytes,
                available,
            }
            .into());
        }
        let thin = self.filesystem.thin();
        let thin = thin.map(|thin| grow_thin(thin, total, bytes, rules.keep_thin_ratio));
        let resized = self.api.resize_filesystem(&self.filesystem, bytes, thin);
        let resized = resized.await?;
        tracing::info!(
            filesystem = resized.name,
            bytes,
            "The filesystem was enlarged."
        );
        Ok(resized)
    }
}
