//! Which nodes have a raw block volume staged, where several nodes of one machine use the directory.
//!
//! A published device is no more than a bind of its node, which the kernel does not count as use, and one node does not
//! see another's mounts. So each one leaves a note, and the last one takes the device away. The caller holds the image.
//!
//! A note is true until the machine is started again, which ends all devices; it says in which run it was written.

use std::fs;
use std::path::PathBuf;

use stowage_host::PathError;
use stowage_host::copy::atomic_write;

use super::repair::names;
use super::{FILE_MODE, STAGED, StateError, Store, remove_if_there};
use crate::id::{Key, NodeId};

/// What the kernel calls its present run.
const RUN: &str = "/proc/sys/kernel/random/boot_id";

impl Store {
    /// Notes that a node has the volume.
    ///
    /// Called twice: it stays noted.
    pub(crate) fn note_staged(&self, key: &Key, node: &NodeId) -> Result<(), StateError> {
        let path = self.staged_path(&note(key, node));
        let written = atomic_write(&path, &this_run()?, FILE_MODE);
        Ok(written.map_err(PathError::at("write", &path))?)
    }

    /// Notes that a node has it no longer.
    ///
    /// Called twice: there is no note any more.
    pub(crate) fn note_unstaged(&self, key: &Key, node: &NodeId) -> Result<(), StateError> {
        remove_if_there(&self.staged_path(&note(key, node))).map(|_| ())
    }

    /// Whether another node has it.
    pub(crate) fn staged_elsewhere(&self, key: &Key, node: &NodeId) -> Result<bool, StateError> {
        let (own, run) = (note(key, node), this_run()?);
        let others = self.notes(key)?.into_iter().filter(|name| *name != own);
        let mut others = others.map(|name| self.staged_path(&name));
        // A note that is gone is none.
        Ok(others.any(|path| fs::read(path).is_ok_and(|written| written == run)))
    }

    /// Removes what is noted of a volume that has no device any more.
    ///
    /// Called twice: there is nothing left.
    pub(crate) fn forget_staged(&self, key: &Key) -> Result<(), StateError> {
        for name in self.notes(key)? {
            remove_if_there(&self.staged_path(&name))?;
        }
        Ok(())
    }

    fn notes(&self, key: &Key) -> Result<Vec<String>, StateError> {
        let mut names = names(self, STAGED)?;
        names.retain(|name| {
            name.split_once('.')
                .is_some_and(|(of, _)| of == key.as_str())
        });
        Ok(names)
    }

    fn staged_path(&self, name: &str) -> PathBuf {
        self.root.join(STAGED).join(name)
    }
}

fn note(key: &Key, node: &NodeId) -> String {
    format!("{key}.{node}")
}

fn this_run() -> Result<Vec<u8>, StateError> {
    Ok(fs::read(RUN).map_err(PathError::at("read", RUN))?)
}
