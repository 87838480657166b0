//! Room for volumes in a filesystem, which may grow for it.
//!
//! A filesystem is told its whole size, not how much more it gets: two calls that decide at the same time would undo each other.
//! So one at a time looks at a filesystem and enlarges it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Driver;
use super::filesystem::{Managed, WekaFilesystem};
use crate::capacity::{check_fits, grow_thin};
use crate::config::VolumeRules;
use crate::error::{Error, FullError};
use crate::rest::wire::Filesystem;

/// Cluster and uid of a filesystem.
type Key = [String; 2];

/// The filesystems that may be about to grow.
#[derive(Default)]
pub(crate) struct Growing(Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>);

impl Growing {
    fn gate(&self, filesystem: &WekaFilesystem) -> Arc<tokio::sync::Mutex<()>> {
        let key = [filesystem.cluster(), filesystem.uid()].map(str::to_owned);
        let mut gates = self.0.lock();
        // Those that nobody holds or waits for.
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        gates.entry(key).or_default().clone()
    }
}

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
        let gate = self.growing.gate(filesystem);
        let _alone = gate.lock().await;
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
