//! What is done to the state directory at start: what a process that died left half-made is removed.
//!
//! Other processes may be at work in the same directory, so only what can be locked is touched.

use std::collections::HashSet;
use std::fs;

use stowage_host::PathError;
use stowage_host::copy::sweep_unfinished;
use stowage_host::loopdev::Loops;

use super::{
    Area, GroupRecord, Record, SCRATCH, SnapshotRecord, Stage, StateError, Store, VolumeRecord,
};
use crate::error::chain;
use crate::id::Key;

/// Removes half-written records and half-made or half-removed images, and says so.
///
/// Called twice: there is nothing left to repair.
pub(crate) fn repair(store: &Store, loops: &Loops) -> Result<(), StateError> {
    for directory in Area::ALL.map(Area::directory).into_iter().chain([
        super::FROZEN,
        super::NODES,
        super::STAGED,
    ]) {
        let path = store.root.join(directory);
        let swept = sweep_unfinished(&path).map_err(PathError::at("clean up", &path))?;
        if swept > 0 {
            tracing::info!(swept, directory, "Removed partly written state files.");
        }
    }
    // Before images without record are removed: those of a group that was taken get theirs.
    store.settle_groups()?;
    for area in [Area::Volumes, Area::Snapshots, Area::Groups] {
        for key in without_record(store, area)? {
            remove_unfinished(store, loops, area, &key)?;
        }
    }
    Ok(())
}

impl Store {
    /// Removes an image that is half-made and nobody's, if there is one.
    ///
    /// Called twice: there is none any more.
    pub(crate) fn remove_unfinished(&self, area: Area, key: &Key) -> Result<(), StateError> {
        let Some(image) = self.lock(area, key)? else {
            return Ok(());
        };
        let nobodys = image.stage()? == Stage::Unfinished && !self.record_path(area, key).exists();
        if nobodys {
            image.discard()?;
        }
        Ok(())
    }

    /// What was being frozen when a process died, or is frozen now by another one.
    pub(crate) fn frozen(&self) -> Result<Vec<Key>, StateError> {
        self.named_by_key(super::FROZEN)
    }

    /// What has a scratch directory.
    pub(crate) fn scratches(&self) -> Result<Vec<Key>, StateError> {
        self.named_by_key(SCRATCH)
    }

    fn named_by_key(&self, directory: &str) -> Result<Vec<Key>, StateError> {
        let names = names(self, directory)?;
        Ok(names.iter().filter_map(|name| Key::parse(name)).collect())
    }
}

pub(super) fn names(store: &Store, directory: &str) -> Result<Vec<String>, StateError> {
    let path = store.root.join(directory);
    let failed = |error| PathError::at("list", &path)(error);
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    Ok(names)
}

fn without_record(store: &Store, area: Area) -> Result<Vec<Key>, StateError> {
    let names = names(store, area.directory())?;
    let records: HashSet<&str> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".json"))
        .collect();
    let images = names.iter().filter_map(|name| name.strip_suffix(".img"));
    Ok(images
        .filter(|name| !records.contains(name))
        .filter_map(Key::parse)
        .collect())
}

fn remove_unfinished(
    store: &Store,
    loops: &Loops,
    area: Area,
    key: &Key,
) -> Result<(), StateError> {
    let image = match store.lock(area, key) {
        Ok(Some(image)) => image,
        // Removed meanwhile, or just being made by a living process.
        Ok(None) | Err(StateError::Locked { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let path = image.path().to_owned();
    // The record may have been written before we got the lock.
    if store.record_path(area, key).exists() {
        return Ok(());
    }
    let attached = loops
        .find(image.file())
        .is_ok_and(|devices| !devices.is_empty());
    if image.stage()? == Stage::Finished || attached {
        let error = chain(&StateError::RecordLost { path });
        tracing::error!(error, "A volume or snapshot cannot be used.");
        return Ok(());
    }
    image.discard()?;
    tracing::info!(image = %path.display(), "Removed a partly made or partly removed image.");
    Ok(())
}

/// Reads every record and reports those that are damaged. Takes its time where there are many.
pub(crate) fn audit(store: &Store) -> Result<(), StateError> {
    audit_area::<VolumeRecord>(store)?;
    audit_area::<SnapshotRecord>(store)?;
    audit_area::<GroupRecord>(store)
}

fn audit_area<R: Record>(store: &Store) -> Result<(), StateError> {
    for key in store.keys(R::SHELF, None)? {
        if let Err(error) = store.read::<R>(&key) {
            let error = chain(&error);
            tracing::error!(error, "A volume or snapshot cannot be used.");
        }
    }
    Ok(())
}
