//! Who uses which mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use stowage_host::mountinfo::Device;
use tokio::sync::RwLock;

use super::Mounts;

/// A mount point of ours.
pub(super) struct Slot {
    pub(super) users: usize,
    pub(super) idle_since: Instant,
    /// Closed while something is mounted or unmounted there; those who only look share it.
    pub(super) gate: Arc<RwLock<()>>,
    /// What was mounted there when the table was last looked at.
    pub(super) device: Option<Device>,
}

impl Slot {
    pub(super) fn unused() -> Self {
        Self {
            users: 0,
            idle_since: Instant::now(),
            gate: Arc::default(),
            device: None,
        }
    }
}

/// Somebody who needs a mount.
pub(super) struct User {
    mounts: Arc<Mounts>,
    pub(super) point: PathBuf,
    pub(super) gate: Arc<RwLock<()>>,
}

impl User {
    pub(super) fn remember(&self, device: Option<Device>) {
        if let Some(slot) = self.mounts.slots.lock().get_mut(&self.point) {
            slot.device = device;
        }
    }
}

impl Clone for User {
    fn clone(&self) -> Self {
        self.mounts.enter(&self.point)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(slot) = self.mounts.slots.lock().get_mut(&self.point) {
            slot.users -= 1;
            slot.idle_since = Instant::now();
        }
    }
}

impl Mounts {
    pub(super) fn enter(self: &Arc<Self>, point: &Path) -> User {
        let mut slots = self.slots.lock();
        let slot = slots.entry(point.to_owned()).or_insert_with(Slot::unused);
        slot.users += 1;
        let gate = slot.gate.clone();
        drop(slots);
        User {
            mounts: self.clone(),
            point: point.to_owned(),
            gate,
        }
    }
}
