//! Who works with which target. Sessions are shared by all disks of a target, and a disk that is not mounted yet does not show
//! in the table of mounts: whoever ends sessions has to know of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use stowage_csi::turns::{Turn, Turns};

/// Who works with which target.
#[derive(Default)]
pub struct Targets {
    /// Held while sessions begin or end, and no longer: a disk that takes its time must not hold up the others.
    changing: Turns<String>,
    /// Disks that were found and are not mounted yet.
    preparing: Arc<Mutex<BTreeSet<(String, u64)>>>,
}

/// A disk that is being made ready, until this is dropped.
#[derive(Debug)]
#[must_use = "the disk may be taken away when this is dropped"]
pub struct Preparing {
    disk: (String, u64),
    all: Arc<Mutex<BTreeSet<(String, u64)>>>,
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.all.lock().remove(&self.disk);
    }
}

impl Targets {
    /// Nobody else begins or ends a session with this target meanwhile.
    pub async fn change(&self, target: &str) -> Turn {
        self.changing.wait(target.to_owned()).await
    }

    /// Nobody takes this disk away meanwhile, nor the session; nothing if somebody else has it. Only under
    /// [`Targets::change`].
    pub fn prepare(&self, target: &str, lun: u64) -> Option<Preparing> {
        let disk = (target.to_owned(), lun);
        let is_free = self.preparing.lock().insert(disk.clone());
        is_free.then(|| Preparing {
            disk,
            all: Arc::clone(&self.preparing),
        })
    }

    /// The disks of a target that are being made ready.
    pub fn preparing(&self, target: &str) -> BTreeSet<u64> {
        let preparing = self.preparing.lock();
        let of_target = preparing.iter().filter(|(its, _)| its == target);
        of_target.map(|(_, lun)| *lun).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_is_made_ready_once_at_a_time_and_holds_up_no_change_of_its_target() {
        let targets = Targets::default();
        let changing = targets.change("iqn.a").await;
        let first = targets.prepare("iqn.a", 1).unwrap();
        assert!(targets.prepare("iqn.a", 1).is_none());
        drop(changing);

        let _changing = targets.change("iqn.a").await;
        let _second = targets.prepare("iqn.a", 2).unwrap();
        assert_eq!(targets.preparing("iqn.a"), [1, 2].into());
        assert_eq!(targets.preparing("iqn.b"), [].into());
        drop(first);
        assert_eq!(targets.preparing("iqn.a"), [2].into());
    }
}
