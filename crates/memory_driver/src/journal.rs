//! What a driver has, on disk: one record per change, appended before the change is answered.
//!
//! A process that is killed loses nothing that it has written; only a crash of the machine would, and no test makes
//! one. A record that was cut short by the kill was not answered either: it is left out, and overwritten.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use prost::Message as _;

use super::state::{Change, Record};

/// The file in a driver's directory.
const FILE: &str = "journal";

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Bytes of whole records that were there when it was read.
    whole: u64,
    /// Opened by the first change: a driver that is only looked at writes nothing.
    file: Option<File>,
}

impl Journal {
    /// Reads the journal in `directory`; none is an empty one.
    pub(super) fn read(directory: &Path) -> io::Result<(Self, Vec<Change>)> {
        let path = directory.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut rest = text.as_slice();
        let mut whole = 0;
        let mut changes = Vec::new();
        while !rest.is_empty() {
            let Ok(record) = Record::decode_length_delimited(&mut rest) else {
                break;
            };
            whole = (text.len() - rest.len()) as u64;
            changes.extend(record.change);
        }
        let journal = Self {
            path,
            whole,
            file: None,
        };
        Ok((journal, changes))
    }

    /// Adds one change. It is in the hands of the kernel when this returns.
    pub(super) fn append(&mut self, change: Change) -> io::Result<()> {
        let record = Record {
            change: Some(change),
        };
        self.file()?
            .write_all(&record.encode_length_delimited_to_vec())
    }

    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).open(&self.path)?;
            file.set_len(self.whole)?;
            self.file = Some(file);
        }
        self.file
            .as_mut()
            .ok_or_else(|| io::Error::other("the journal is closed"))
    }
}
