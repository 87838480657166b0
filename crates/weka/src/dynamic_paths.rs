//! The directories of a filesystem in which volumes are made, or were made earlier.

use std::path::Path;

/// Where CreateVolume makes volumes, and where it made them before that was changed. Volumes in all of these are the
/// driver's own: they are listed, counted and deleted, and nobody but the driver has made the way to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DynamicPaths {
    current: String,
    earlier: Vec<String>,
}

/// A path that would leave the filesystem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathOutside(pub(crate) String);

impl DynamicPaths {
    /// One path for new volumes; slashes at its ends do not count. None at all is the root of the filesystem.
    pub(crate) fn new(current: &str) -> Result<Self, PathOutside> {
        Ok(Self {
            current: below_root(current)?,
            earlier: Vec::new(),
        })
    }

    /// Volumes were made there, too.
    pub(crate) fn or_earlier(mut self, path: &str) -> Result<Self, PathOutside> {
        self.earlier.push(below_root(path)?);
        Ok(self)
    }

    /// Where new volumes are made.
    pub(crate) fn current(&self) -> &str {
        &self.current
    }

    /// Whether volumes are made in this directory, or were.
    pub(crate) fn contain(&self, directory: &Path) -> bool {
        let mut paths = self.earlier.iter().chain([&self.current]);
        paths.any(|path| directory == Path::new(path))
    }
}

/// A path below the root of a filesystem, without slashes at its ends; empty is the root.
pub(crate) fn below_root(text: &str) -> Result<String, PathOutside> {
    let path = text.trim_matches('/');
    let plain = path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if plain && !path.contains(['\0', ':']) {
        Ok(path.to_owned())
    } else {
        Err(PathOutside(text.to_owned()))
    }
}
