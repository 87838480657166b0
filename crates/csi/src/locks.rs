//! One operation per volume at a time.
//!
//! The caller tries to send one call per volume but may forget that it did, after a restart for example. The
//! specification answers the second call with ABORTED: the caller waits and sends it again.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tonic::Status;

/// The volumes that are being worked on. Clones share the same set.
///
/// Keys are volume ids, or names for calls that create: whatever a repeated call has in common with the first.
#[derive(Clone, Debug, Default)]
pub struct VolumeLocks {
    held: Arc<Mutex<HashSet<String>>>,
}

/// The right to work on some volumes, until it is dropped.
///
/// A handler's future is dropped at the call's deadline, and its guard with it. Work that goes on after that (a
/// blocking task that hangs in a mount) must own the guard, or a second operation starts next to it.
#[derive(Debug)]
#[must_use = "the lock is given back when the guard is dropped"]
pub struct VolumeGuard {
    locks: VolumeLocks,
    keys: Vec<String>,
}

/// Another operation on this volume is under way.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("an operation on volume `{0}` is under way; try again when it has ended")]
pub struct VolumeBusy(pub String);

impl VolumeLocks {
    /// Takes the lock of one volume. Never waits.
    pub fn lock(&self, key: &str) -> Result<VolumeGuard, VolumeBusy> {
        tracing::Span::current().record("volume_id", key);
        self.lock_all([key])
    }

    /// Takes the locks of several volumes, all or none: a clone and its source, the members of a group.
    pub fn lock_all<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<VolumeGuard, VolumeBusy> {
        let mut keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        // The same volume named twice is one volume, not a conflict with itself.
        keys.sort();
        keys.dedup();

        let mut held = self.held.lock();
        if let Some(busy) = keys.iter().find(|key| held.contains(*key)) {
            return Err(VolumeBusy(busy.clone()));
        }
        held.extend(keys.iter().cloned());
        drop(held);
        Ok(VolumeGuard {
            locks: self.clone(),
            keys,
        })
    }
}

impl Drop for VolumeGuard {
    fn drop(&mut self) {
        let mut held = self.locks.held.lock();
        for key in &self.keys {
            held.remove(key);
        }
    }
}

impl From<VolumeBusy> for Status {
    fn from(busy: VolumeBusy) -> Self {
        Self::aborted(busy.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_operation_on_a_volume_is_aborted_until_the_first_ends() {
        let locks = VolumeLocks::default();
        let first = locks.lock("vol-1").unwrap();

        let status = Status::from(locks.clone().lock("vol-1").unwrap_err());
        assert_eq!(status.code(), tonic::Code::Aborted);
        assert!(status.message().contains("`vol-1`"), "{status}");

        drop(first);
        assert!(locks.lock("vol-1").is_ok());
    }

    #[test]
    fn other_volumes_are_free() {
        let locks = VolumeLocks::default();
        let _first = locks.lock("vol-1").unwrap();
        assert!(locks.lock("vol-2").is_ok());
    }

    #[test]
    fn several_locks_are_taken_together_or_not_at_all() {
        let locks = VolumeLocks::default();
        let busy = locks.lock("b").unwrap();
        assert_eq!(
            locks.lock_all(["a", "b", "c"]).unwrap_err(),
            VolumeBusy("b".to_owned())
        );
        assert!(locks.lock_all(["a", "c"]).is_ok());

        drop(busy);
        let all = locks.lock_all(["a", "b", "a"]).unwrap();
        assert!(locks.lock("a").is_err());
        drop(all);
        assert!(locks.held.lock().is_empty());
    }

    #[test]
    fn a_panic_gives_the_lock_back() {
        let locks = VolumeLocks::default();
        let moved = locks.clone();
        let panicked = std::thread::spawn(move || {
            let _guard = moved.lock("vol-1").unwrap();
            panic!("as expected by the test");
        })
        .join();
        assert!(panicked.is_err());
        assert!(locks.lock("vol-1").is_ok());
    }
}
