//! Errors of the system with the file they are about, and directories.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Something that the system refused to do with a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`", path.display())]
pub struct PathError {
    /// What was to be done: `read`, `create` ...
    pub doing: &'static str,
    /// With which file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl PathError {
    /// For `map_err`.
    pub fn at<E: Into<io::Error>>(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self {
            doing,
            path,
            source: source.into(),
        }
    }
}

/// Makes a directory with this mode, and those above it. Blocks.
///
/// Called twice: it is there, with the mode it was made with.
pub fn create_directories(path: &Path, mode: u32) -> Result<(), PathError> {
    let created = DirBuilder::new().recursive(true).mode(mode).create(path);
    created.map_err(PathError::at("create directory", path))
}
