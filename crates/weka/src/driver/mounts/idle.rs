//! Mounts that nobody uses are unmounted after a while; those that do not end are reported.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stowage_host::blocking;
use stowage_host::mount::{Unmount, ensure_unmounted, remove_mount_point};
use stowage_host::mountinfo::Mount;
use stowage_service::health::Check;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::shown::{is_nfs, is_same_export};
use super::slots::Slot;
use super::{Mounts, is_weka};
use crate::driver::filesystem::WekaFilesystem;
use crate::error::chain;

/// How long a mount stays that nobody uses: calls come in crowds.
const IDLE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often it is reported whether all mounts end.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// How often and how long apart the last mounts are tried at the end.
const LAST_ATTEMPTS: usize = 20;
const LAST_PAUSE: Duration = Duration::from_millis(100);

impl Mounts {
    /// Unmounts what nobody uses, also what an earlier process left, until `stop`.
    pub(crate) async fn tidy(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => self.unmount_idle(IDLE).await,
            }
        }
    }

    /// Reports a mount that does not end, until `stop`.
    pub(crate) async fn watch(self: Arc<Self>, check: Check, stop: CancellationToken) {
        let mut ticks = interval(REPORT_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => match self.stuck() {
                    Some(stuck) => check.not_ready(chain(&stuck)),
                    None => check.ready(),
                },
            }
        }
    }

    /// Unmounts a filesystem that is to be deleted, unless somebody uses it; then its mount dies with it and is taken away
    /// later.
    pub(crate) async fn let_go(&self, filesystem: &WekaFilesystem) {
        self.unmount_below(&self.place(filesystem), Duration::ZERO)
            .await;
    }

    /// Unmounts everything at the end. Work that was told to stop gets a moment to end; what hangs stays mounted.
    pub(crate) async fn unmount_all(&self) {
        for _ in 0..LAST_ATTEMPTS {
            self.unmount_idle(Duration::ZERO).await;
            if self.slots.lock().is_empty() {
                return;
            }
            sleep(LAST_PAUSE).await;
        }
        tracing::warn!("Some filesystems are still mounted; the next start uses or unmounts them.");
    }

    pub(super) async fn unmount_idle(&self, idle: Duration) {
        self.unmount_below(&self.base, idle).await;
    }

    async fn unmount_below(&self, place: &Path, idle: Duration) {
        let table = match self.mounter.table().await {
            Ok(table) => table,
            Err(error) => {
                tracing::warn!(error = chain(&error), "Cannot read the table of mounts.");
                return;
            }
        };
        // Whoever has a directory in a snapshot by NFS loses it with the mount that it was reached through.
        let is_needed = |mount: &Mount<'_>| {
            let mut others = table.iter();
            let is_bound = |other: Mount<'_>| !self.is_own(&other) && is_same_export(mount, &other);
            !idle.is_zero() && is_nfs(mount) && others.any(is_bound)
        };
        let mut points: Vec<_> = table
            .under(place)
            .filter(|mount| is_weka(mount) && !is_needed(mount))
            .map(|mount| mount.point().to_owned())
            .collect();
        points.dedup();
        // At the same time: one that hangs is waited for by nobody else.
        let unmounts = points.iter().map(|point| self.unmount(point, idle));
        futures::future::join_all(unmounts).await;
        let left = self.mounter.table().await;
        let stays = |point: &Path| match &left {
            Ok(left) => left.at(point).is_some(),
            Err(_) => true,
        };
        self.slots
            .lock()
            .retain(|point, slot| slot.users > 0 || stays(point));
    }

    async fn unmount(&self, point: &Path, idle: Duration) {
        let gate = {
            let mut slots = self.slots.lock();
            let slot = slots.entry(point.to_owned()).or_insert_with(Slot::unused);
            if slot.users > 0 || slot.idle_since.elapsed() < idle {
                return;
            }
            slot.gate.clone()
        };
        let Ok(_gate) = gate.try_write() else {
            return;
        };
        // Somebody may have come before the gate was closed.
        if self
            .slots
            .lock()
            .get(point)
            .is_some_and(|slot| slot.users > 0)
        {
            return;
        }
        let unmounted = ensure_unmounted(&*self.mounter, point, Unmount::Normal).await;
        match unmounted {
            Ok(_) => {
                // A directory that stays is used again by the next mount. That of the filesystem goes with the last one.
                let _ = remove_mount_point(point).await;
                let of_filesystem = point.parent().map(Path::to_owned);
                let _ = blocking(move || of_filesystem.map(std::fs::remove_dir)).await;
            }
            Err(error) => {
                tracing::warn!(point = %point.display(), error = chain(&error), "Cannot unmount a mount that is not in use; trying again later.");
            }
        }
    }
}
