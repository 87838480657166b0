//! Who uses which mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use stowage_host::mountinfo::Device;
use tokio::sync::RwLock;

use super::Mounts;
use crate::error::Error;

/// A mount point of ours.
pub(super) struct Slot {
    pub(super) users: usize,
    pub(super) idle_since: Instant,
    /// Closed while something is mounted or unmounted there; those who only look share it.
    pub(super) gate: Arc<RwLock<()>>,
    /// What was mounted there when the table was last looked at.
    pub(super) device: Option<Device>,
    /// The mount that is being made there.
    pub(super) under_way: Option<UnderWay>,
}

/// A mount that has begun and not ended.
#[derive(Debug, Clone)]
pub(super) struct UnderWay {
    pub(super) filesystem: String,
    pub(super) since: Instant,
}

impl Slot {
    pub(super) fn unused() -> Self {
        Self {
            users: 0,
            idle_since: Instant::now(),
            gate: Arc::default(),
            device: None,
            under_way: None,
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

    fn set_under_way(&self, under_way: Option<UnderWay>) {
        if let Some(slot) = self.mounts.slots.lock().get_mut(&self.point) {
            slot.under_way = under_way;
        }
    }
}

/// Says that a mount is under way, until it is dropped.
pub(super) struct Mounting(User);

impl Mounting {
    pub(super) fn begin(user: User, filesystem: &str) -> Self {
        let under_way = UnderWay {
            filesystem: filesystem.to_owned(),
            since: Instant::now(),
        };
        user.set_under_way(Some(under_way));
        Self(user)
    }
}

impl Drop for Mounting {
    fn drop(&mut self) {
        self.0.set_under_way(None);
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

    /// Why a mount point has to be waited for, if a mount is under way there.
    pub(super) fn under_way(&self, point: &Path) -> Option<Error> {
        let slots = self.slots.lock();
        let slot = slots.get(point)?;
        self.overdue(slot).or_else(|| {
            let mount = slot.under_way.as_ref()?;
            Some(Error::MountUnfinished {
                filesystem: mount.filesystem.clone(),
                seconds: mount.since.elapsed().as_secs(),
            })
        })
    }

    /// A mount that was told to end and has not: it holds its mount point until it does.
    pub(super) fn stuck(&self) -> Option<Error> {
        let slots = self.slots.lock();
        slots.values().find_map(|slot| self.overdue(slot))
    }

    /// The same for one mount point.
    pub(super) fn stuck_at(&self, point: &Path) -> Option<Error> {
        let slots = self.slots.lock();
        self.overdue(slots.get(point)?)
    }

    fn overdue(&self, slot: &Slot) -> Option<Error> {
        let mount = slot.under_way.as_ref()?;
        let time = mount.since.elapsed();
        (time > self.mount_time).then(|| Error::MountStuck {
            filesystem: mount.filesystem.clone(),
            seconds: time.as_secs(),
        })
    }
}
