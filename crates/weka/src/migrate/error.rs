//! Why a migration does not end well.

use std::path::PathBuf;

use stowage_csi::flags::FlagError;
use stowage_host::PathError;

use super::CredentialsError;
use crate::error::{Error, chain};
use crate::rest::ApiError;

/// Why nothing, or not everything, was migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Mounts need it.
    #[error("the filesystem cannot be mounted: run the command as root (`sudo`)")]
    NotRoot,
    /// Not the name of a filesystem.
    #[error("`{0}` is not the name of a filesystem: give one that `weka fs` lists")]
    Filesystem(String),
    /// Not a directory of the filesystem.
    #[error("--csi-volumes-dir `{0}`: give a path below the filesystem's root, without `..`")]
    Directory(String),
    /// A flag.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// Nobody to be.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Two at once.
    #[error(
        "another migration on this machine uses `{}`: wait until it has ended, or give another directory with --mount-base", .0.display()
    )]
    Busy(PathBuf),
    /// The directory to mount in cannot be made.
    #[error(transparent)]
    MountBase(#[from] PathError),
    /// Nothing to mount with.
    #[error("{0}; on a stateless client, name a backend with --endpoint-address")]
    NoClient(String),
    /// No such filesystem.
    #[error(
        "filesystem `{filesystem}` does not exist on Weka cluster `{cluster}`, or not in organization `{organization}`: correct its name (`weka fs` lists all), or the credentials"
    )]
    FilesystemMissing {
        /// Its name.
        filesystem: String,
        /// Where it is not.
        cluster: String,
        /// In which organization.
        organization: String,
    },
    /// No such directory.
    #[error(
        "directory `/{}` does not exist on filesystem `{filesystem}`: name the one that holds the volumes with --csi-volumes-dir", directory.display()
    )]
    DirectoryMissing {
        /// Where it is not.
        filesystem: String,
        /// Its path.
        directory: PathBuf,
    },
    /// Attributes cannot be removed.
    #[error(
        "filesystem `{filesystem}` is mounted read-only below `{}`, so nothing was changed: unmount it there, make sure that this machine may write to it, and run the command again", base.display()
    )]
    ReadOnly {
        /// Which.
        filesystem: String,
        /// Where.
        base: PathBuf,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<Error> for MigrateError {
    fn from(error: Error) -> Self {
        if error.is_of_client() {
            Self::NoClient(chain(&error))
        } else {
            Self::Failed(chain(&error))
        }
    }
}

impl From<ApiError> for MigrateError {
    fn from(error: ApiError) -> Self {
        Error::from(error).into()
    }
}
