//! Volumes that are being copied. Many copies of one are made at a time; it must not be deleted meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stowage_csi::locks::{VolumeBusy, VolumeGuard};

use super::Driver;

/// How many copies of each volume are being made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(Arc<Mutex<HashMap<String, usize>>>);

/// A copy that is being made, until it is dropped.
#[derive(Debug)]
pub(crate) struct Copying {
    sources: Sources,
    volume: String,
}

impl Sources {
    fn enter(&self, volume: &str) -> Copying {
        *self.0.lock().entry(volume.to_owned()).or_default() += 1;
        Copying {
            sources: self.clone(),
            volume: volume.to_owned(),
        }
    }

    fn has(&self, volume: &str) -> bool {
        self.0.lock().contains_key(volume)
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let mut sources = self.sources.0.lock();
        if let Some(count) = sources.get_mut(&self.volume) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.volume);
            }
        }
    }
}

impl Driver {
    /// Keeps a volume from being deleted while it is copied.
    ///
    /// Who deletes has the volume's lock first and looks for copies then; who copies does it the other way round. So one of two
    /// sees the other.
    pub(crate) fn copying(&self, volume: &str) -> Result<Copying, VolumeBusy> {
        let copying = self.sources.enter(volume);
        // Only for a moment: whoever comes later sees the copy.
        drop(self.locks.lock_all([volume])?);
        Ok(copying)
    }

    /// The right to delete a volume, of which no copy may be under way.
    pub(crate) fn lock_to_delete(&self, volume: &str) -> Result<VolumeGuard, VolumeBusy> {
        let guard = self.locks.lock(volume)?;
        if self.sources.has(volume) {
            return Err(VolumeBusy(volume.to_owned()));
        }
        Ok(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_a_source_until_its_last_copy_is_made() {
        let sources = Sources::default();
        let (one, two) = (sources.enter("a"), sources.enter("a"));
        drop(one);
        assert!(sources.has("a") && !sources.has("b"));
        drop(two);
        assert!(!sources.has("a"));
    }
}
