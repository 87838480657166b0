//! What is served, and what operations have to pass before.

use std::fmt::Debug;
use std::fs::File;
use std::time::Duration;
use std::{io, thread};

use super::handles::Handles;
use crate::files::tree::{Entry, Tree};

/// How often a hung operation looks whether it may go on.
const HANG_CHECK: Duration = Duration::from_millis(20);

/// A mounted filesystem, as the kernel talks to it.
#[derive(Debug)]
pub struct Served {
    pub(super) tree: Tree,
    pub(super) files: Handles<File>,
    pub(super) directories: Handles<Vec<Entry>>,
    gate: Option<Box<dyn Gate>>,
}

/// What every operation passes before it touches a file: may hold it for as long as it likes, or end it with an error.
pub trait Gate: Debug + Send + Sync {
    /// Lets an operation pass.
    fn pass(&self) -> io::Result<()>;
}

impl Served {
    /// Serves these files.
    pub fn new(tree: Tree) -> Self {
        Self {
            tree,
            files: Handles::default(),
            directories: Handles::default(),
            gate: None,
        }
    }

    /// The same behind a gate.
    pub fn behind(self, gate: impl Gate + 'static) -> Self {
        let gate: Option<Box<dyn Gate>> = Some(Box::new(gate));
        Self { gate, ..self }
    }

    /// Works on the files, once operations do not hang and the gate lets them pass.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Tree) -> io::Result<T>) -> io::Result<T> {
        while self.tree.accounts.is_hung() {
            thread::sleep(HANG_CHECK);
        }
        if let Some(gate) = &self.gate {
            gate.pass()?;
        }
        work(&self.tree)
    }
}
