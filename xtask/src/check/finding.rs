//! What a rule has to say.

use std::fmt;
use std::path::Path;

/// A place that breaks a rule, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    place: String,
    what: String,
}

impl Finding {
    /// About a file, or about something else that has a name.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }

    /// About a line of a file.
    pub fn at(file: &Path, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{}:{line}", file.display()), what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
