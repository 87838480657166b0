//! Gives volumes the quotas that they lack: old ones from before there were quotas, and those that people made.
//!
//! The array counts what a directory holds only if it has a process with the role DATASERV; an empty directory needs none.

use super::{KnownVolume, State};
use crate::driver::Driver;
use crate::error::chain;
use crate::rest::Api;
use crate::rest::wire::{Filesystem, Quota};

impl Driver {
    /// Gives a volume its quota, if that is wanted and the array can. What cannot be done now is tried by the next sweep.
    ///
    /// Called twice: it has its quota.
    pub(super) async fn backfill(
        &self,
        api: &Api,
        filesystem: &Filesystem,
        volume: &KnownVolume,
        inode: u64,
    ) -> State {
        let without = State::Unlimited { inode: Some(inode) };
        let rules = &self.config.figures;
        if !rules.backfill || (volume.is_static && !rules.backfill_static) {
            return without;
        }
        let limits = match volume.limits() {
            Ok(Some(limits)) => limits,
            Ok(None) => return without,
            Err(error) => {
                tracing::warn!(%error, volume = volume.name, "The volume gets no quota: its attributes cannot be read.");
                return without;
            }
        };
        match api.begin_quota(filesystem, inode, limits).await {
            Ok(status) => {
                self.metrics.fleet.filled();
                tracing::info!(volume = volume.name, volume_id = %volume.handle, "The volume has a quota now.");
                State::of_quota(&Quota::of(limits, status))
            }
            Err(error) => {
                self.metrics.fleet.not_filled();
                let remedy = api.quota_remedy(&error).await;
                let error = chain(&error);
                tracing::warn!(error, volume = volume.name, volume_id = %volume.handle, remedy, "The volume gets no quota.");
                without
            }
        }
    }
}
