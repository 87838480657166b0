//! One error type for the whole crate: every variant prints as one sentence a person can act on, its cause included.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong while a cluster is made, used or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine or the request does not allow it; the sentence names the remedy.
    #[error("{0}")]
    Refused(String),
    /// A file or system call.
    #[error("{what}: {cause}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// The operating system's answer.
        cause: io::Error,
    },
    /// A command that ended badly.
    #[error("`{command}` {outcome}{}", tail(.output))]
    Command {
        /// Program and arguments.
        command: String,
        /// How it ended.
        outcome: String,
        /// The last lines it printed.
        output: String,
    },
    /// Something that should have happened by now.
    #[error("{what} took longer than {} s; see {}", .after.as_secs(), .log.display())]
    Timeout {
        /// What was awaited.
        what: String,
        /// For how long.
        after: Duration,
        /// Where to look.
        log: PathBuf,
    },
    /// A daemon that should run and does not.
    #[error("{name} ended by itself{}; its log is {}", tail(.last_words), .log.display())]
    DaemonDied {
        /// Its name.
        name: String,
        /// The end of its log.
        last_words: String,
        /// Its log.
        log: PathBuf,
    },
    /// A certificate that could not be made or read.
    #[error("certificate {what}: {cause}")]
    Certificate {
        /// Which one.
        what: String,
        /// Why.
        cause: rcgen::Error,
    },
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds to an [`io::Error`] what was being done.
pub trait Doing<T> {
    /// `what` is a clause such as ``cannot write `/some/path` ``.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what(),
            cause: source.into(),
        })
    }
}

/// Shorthand for [`Error::Refused`].
pub fn refused<T>(sentence: impl Into<String>) -> Result<T> {
    Err(Error::Refused(sentence.into()))
}

fn tail(output: &str) -> String {
    let last: Vec<&str> = output
        .lines()
        .rev()
        .filter(|l| !l.trim().is_empty())
        .take(3)
        .collect();
    if last.is_empty() {
        return String::new();
    }
    format!(
        ": {}",
        last.into_iter().rev().collect::<Vec<_>>().join(" | ")
    )
}
