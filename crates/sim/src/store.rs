//! State that outlives `kill -9`: a journal of changes, one line per decision, durable before anybody gets an answer.
//!
//! [`Machine`] is the state with its journal; [`kinds!`] declares what a state is made of. A line that `kill -9` cut off was never answered for, so it is dropped. Opening rewrites the journal to one line that
//! holds everything. Many decisions at once share one flush.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

mod kinds;
mod machine;

pub(crate) use kinds::kinds;
pub use machine::{Machine, restarting};

const JOURNAL: &str = "state.journal";

/// Why the state cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory or the journal cannot be used.
    #[error("cannot use `{}`", path.display())]
    Unusable {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has the directory.
    #[error("another simulator uses `{}`", .0.display())]
    InUse(PathBuf),
    /// A line in the middle makes no sense.
    #[error("line {line} of `{}` is not a list of changes", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// What is kept in a journal.
pub trait Journaled: Default {
    /// One change of it.
    type Change: Serialize + DeserializeOwned;

    /// Makes one change.
    fn apply(&mut self, change: Self::Change);

    /// Changes that make it from nothing.
    fn changes(&self) -> Vec<Self::Change>;
}

/// An open journal. Dropping it ends the writing, and lets go of the directory.
#[derive(Debug)]
pub struct Store {
    lines: Sender<Line>,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    durable: oneshot::Sender<io::Result<()>>,
}

impl Store {
    /// Reads what is in a directory, which is made if missing. An empty directory gives an empty state.
    pub fn open<S: Journaled>(directory: &Path) -> Result<(Self, S), StoreError> {
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Unusable { path, source }
        };
        std::fs::create_dir_all(directory).map_err(unusable(directory))?;
        let lock = File::create(directory.join("lock")).map_err(unusable(directory))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StoreError::InUse(directory.to_owned()))?;

        let path = directory.join(JOURNAL);
        let state: S = read(&path)?;
        let journal = rewrite(directory, &path, &state).map_err(unusable(&path))?;
        let (lines, received) = channel();
        thread::Builder::new()
            .name("sim-journal".to_owned())
            .spawn(move || write_lines(journal, &received, &lock))
            .map_err(unusable(&path))?;
        Ok((Self { lines }, state))
    }

    /// Queues changes, in the order of the calls; what it returns ends when they are durable.
    pub fn append(&self, changes: &[impl Serialize]) -> oneshot::Receiver<io::Result<()>> {
        let (durable, done) = oneshot::channel();
        // If the writer is gone, so is `durable`, and the receiver says so.
        let _ = self.lines.send(Line {
            bytes: line(changes),
            durable,
        });
        done
    }
}

fn line(changes: &[impl Serialize]) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(changes).expect("changes have string keys only");
    bytes.push(b'\n');
    bytes
}

fn read<S: Journaled>(path: &Path) -> Result<S, StoreError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => {
            return Err(StoreError::Unusable {
                path: path.to_owned(),
                source,
            });
        }
    };
    let mut state = S::default();
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let changes: Vec<S::Change> =
            serde_json::from_slice(line).map_err(|source| StoreError::Damaged {
                path: path.to_owned(),
                line: index + 1,
                source,
            })?;
        for change in changes {
            state.apply(change);
        }
    }
    Ok(state)
}

fn rewrite(directory: &Path, path: &Path, state: &impl Journaled) -> io::Result<File> {
    let fresh = directory.join("state.journal.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&line(&state.changes()))?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    File::open(directory)?.sync_all()?;
    OpenOptions::new().append(true).open(path)
}

/// `lock` is held for as long as there may be something to write.
fn write_lines(mut journal: File, lines: &Receiver<Line>, lock: &File) {
    while let Ok(first) = lines.recv() {
        let batch: Vec<Line> = std::iter::once(first).chain(lines.try_iter()).collect();
        let bytes: Vec<u8> = batch.iter().flat_map(|line| line.bytes.clone()).collect();
        let result = journal.write_all(&bytes).and_then(|()| journal.sync_data());
        for line in batch {
            let result = match &result {
                Ok(()) => Ok(()),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            let _ = line.durable.send(result);
        }
    }
    let _ = flock(lock, FlockOperation::Unlock);
}

#[cfg(test)]
mod tests;
