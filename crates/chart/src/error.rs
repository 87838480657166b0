//! Why a chart cannot be used.

use std::path::PathBuf;

/// Why a chart cannot be read, rendered or installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the chart.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file that is not what its name says.
    #[error("`{}`: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A template.
    #[error("template `{name}`: {reason}")]
    Template {
        /// Its path in the chart.
        name: String,
        /// What is wrong with it, or what it says itself.
        reason: String,
    },
    /// Values that the schema does not allow.
    #[error(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{0}"
    )]
    Values(String),
    /// A value given on the command line.
    #[error("`{0}` is not a value: write `NAME=VALUE`")]
    Set(String),
    /// What Helm refuses, in its words as far as they matter.
    #[error("{0}")]
    Refused(String),
    /// A hook ended with an error.
    #[error("{event} hooks failed: {hook}: {reason}")]
    Hook {
        /// When it ran.
        event: &'static str,
        /// Kind and name of the object.
        hook: String,
        /// What it said.
        reason: String,
    },
    /// kubectl.
    #[error(transparent)]
    Kubectl(#[from] devcluster::error::Error),
}

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;
