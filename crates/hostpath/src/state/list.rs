//! Everything there is, in pages.
//!
//! A token is the last key of the page before, so it stays valid whatever is made or removed meanwhile. Names are read
//! for every page, records only for what is on it.

use std::fs;

use stowage_host::PathError;

use super::{Area, Record, StateError, Store};
use crate::id::Key;

/// A part of a list.
#[derive(Debug)]
pub(crate) struct Page<R> {
    /// Records, or why they cannot be read.
    pub(crate) entries: Vec<(Key, Result<R, StateError>)>,
    /// Where the next one starts; none if this was the last.
    pub(crate) next: Option<Key>,
}

impl Store {
    /// All keys on a area that have a record, in their order, from `after` on.
    pub(crate) fn keys(&self, area: Area, after: Option<&Key>) -> Result<Vec<Key>, StateError> {
        let directory = self.root.join(area.directory());
        let failed = |error| PathError::at("list", &directory)(error);
        let mut keys = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let key = name
                .to_str()
                .and_then(|name| name.strip_suffix(".json"))
                .and_then(Key::parse);
            keys.extend(key.filter(|key| after.is_none_or(|after| key > after)));
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The records of one page, damaged ones included as the error they are. `wanted` chooses among those that can
    /// be read; zero entries means no limit.
    pub(crate) fn page<R: Record>(
        &self,
        after: Option<&Key>,
        most: usize,
        wanted: impl Fn(&R) -> bool,
    ) -> Result<Page<R>, StateError> {
        let mut entries = Vec::new();
        for key in self.keys(R::SHELF, after)? {
            let record = match self.read::<R>(&key) {
                // It was removed since its name was read.
                Ok(None) => continue,
                Ok(Some(record)) if !wanted(&record) => continue,
                Ok(Some(record)) => Ok(record),
                Err(error @ StateError::Damaged { .. }) => Err(error),
                Err(error) => return Err(error),
            };
            if most > 0 && entries.len() == most {
                let next = entries.last().map(|(key, _): &(Key, _)| key.clone());
                return Ok(Page { entries, next });
            }
            entries.push((key, record));
        }
        Ok(Page {
            entries,
            next: None,
        })
    }
}
