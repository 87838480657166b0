//! Volumes that the driver was asked to attach, until it is known what became of that.
//!
//! The finalizer on the attachment should be enough to remember them by. It is not where the attachment is taken away
//! regardless: by a person who removes finalizers, or by the API server, which decides to delete an object that has
//! no finalizer and then deletes it although one was added in between.

use std::collections::HashMap;

use parking_lot::Mutex;
use stowage_kubernetes::queue::Key;

use super::step::Detach;

/// How to undo each of them, by attachment.
#[derive(Default)]
pub(super) struct Unsure(Mutex<HashMap<Key, Detach>>);

impl Unsure {
    /// The driver is about to be asked. Called twice: the last one counts.
    pub(super) fn begin(&self, attachment: &str, undo: Detach) {
        self.0.lock().insert(attachment.into(), undo);
    }

    /// It is attached and its attachment says so, or it is not attached.
    pub(super) fn end(&self, attachment: &str) {
        self.0.lock().remove(attachment);
    }

    /// What is to be undone if the attachment is gone.
    pub(super) fn undo(&self, attachment: &str) -> Option<Detach> {
        self.0.lock().get(attachment).cloned()
    }
}
