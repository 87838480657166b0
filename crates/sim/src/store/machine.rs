//! A state with its journal.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Journaled, Store, StoreError};

/// How long another simulator may take to let go of the directory.
const PATIENCE: Duration = Duration::from_secs(2);

/// A state with its journal. Decisions are made one after the other; what they decide is durable before it is told.
#[derive(Debug)]
pub struct Machine<S> {
    directory: PathBuf,
    kept: Mutex<Kept<S>>,
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct Kept<S> {
    state: S,
    /// None while it restarts.
    store: Option<Store>,
}

/// Why nothing can be decided at the moment.
pub fn restarting() -> io::Error {
    io::Error::other("the array restarts")
}

impl<S: Journaled> Machine<S> {
    /// Reads a directory, which is made if missing. One that was let go of a moment ago may be waited for.
    pub async fn open(directory: &Path) -> Result<Self, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        let (store, state) = loop {
            match Store::open(directory) {
                Err(StoreError::InUse(_)) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                result => break result?,
            }
        };
        Ok(Self {
            directory: directory.to_owned(),
            kept: Mutex::new(Kept {
                state,
                store: Some(store),
            }),
            changes: watch::Sender::new(()),
        })
    }

    /// Forgets everything but the directory, and reads that again.
    pub async fn reload(&self) -> Result<(), StoreError> {
        drop(self.kept.lock().store.take());
        let (store, state) = loop {
            match Store::open(&self.directory) {
                // The writer of the old journal ends a moment later.
                Err(StoreError::InUse(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                result => break result?,
            }
        };
        *self.kept.lock() = Kept {
            state,
            store: Some(store),
        };
        self.changes.send_replace(());
        Ok(())
    }

    /// Looks at the state.
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.kept.lock().state)
    }

    /// Wakes up whenever the state changes.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Decides, makes the changes, and returns when they are durable.
    pub async fn change<T, R, F>(
        &self,
        decide: impl FnOnce(&S) -> Result<(Vec<S::Change>, T), R>,
    ) -> Result<T, F>
    where
        F: From<R> + From<io::Error>,
    {
        let (value, durable) = {
            let mut kept = self.kept.lock();
            let (changes, value) = decide(&kept.state)?;
            let store = kept.store.as_ref().ok_or_else(restarting)?;
            let durable = store.append(&changes);
            for change in changes {
                kept.state.apply(change);
            }
            (value, durable)
        };
        self.changes.send_replace(());
        durable.await.map_err(|_| restarting())??;
        Ok(value)
    }

    /// Completes a state that was just opened. Not waited for: opened again, it would be completed in the same way.
    pub fn complete(&self, missing: impl FnOnce(&S) -> Vec<S::Change>) {
        let mut kept = self.kept.lock();
        let changes = missing(&kept.state);
        if let Some(store) = &kept.store {
            drop(store.append(&changes));
        }
        for change in changes {
            kept.state.apply(change);
        }
    }
}
