//! Why the cluster says no.

use super::access::{Right, Role};
use crate::weka::release::Release;

/// Why the cluster says no. [`Refusal::status`] and [`Refusal::exception`] say how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody, or somebody whose token is not (or no longer) valid.
    #[error("Authentication failed: {0}")]
    Unauthenticated(&'static str),
    /// The user's role lacks a right.
    #[error(
        "User `{user}` with role {role:?} lacks the right to {right}: needs one of {}",
        right.holders(release).iter().map(|role| format!("{role:?}")).collect::<Vec<_>>().join(", ")
    )]
    Forbidden {
        /// Who asked.
        user: String,
        /// The user's role.
        role: Role,
        /// What it lacks.
        right: Right,
        /// The version, because rights depend on it.
        release: Release,
    },
    /// This version has no such path.
    #[error("Cannot find the requested path")]
    NoSuchPath,
    /// No filesystem with this identity.
    #[error("Filesystem {0} does not exist")]
    FilesystemMissing(String),
    /// No snapshot with this identity.
    #[error("Snapshot {0} does not exist")]
    SnapshotMissing(String),
    /// No such group of filesystems.
    #[error("Filesystem group {0} does not exist")]
    FilesystemGroupMissing(String),
    /// No such client group.
    #[error("Client group {0} does not exist")]
    ClientGroupMissing(String),
    /// No such NFS permission.
    #[error("Permission {0} does not exist")]
    PermissionMissing(String),
    /// No such path on a filesystem.
    #[error("PATH_NOT_FOUND: {0}")]
    PathMissing(String),
    /// No directory with this inode.
    #[error("Inode {0} does not exist or is not a directory")]
    InodeMissing(u64),
    /// The directory has no quota; newer versions say 404, older ones 500.
    #[error("Directory has no quota")]
    QuotaMissing {
        /// Whether this version says 404.
        not_found: bool,
    },
    /// A quota on a directory with files needs a process that counts them.
    #[error(
        "Cannot set a quota on a directory that is not empty: no data services container is up"
    )]
    DirectoryNotEmpty,
    /// Something with this name is there.
    #[error("{what} `{name}` already exists")]
    NameTaken {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// More bytes than are left.
    #[error(
        "Not enough available capacity: asked for {asked} bytes, {available} are unprovisioned"
    )]
    CapacityExceeded {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// The object is not ready for this, or on its way out.
    #[error("{what} is {doing}")]
    Busy {
        /// Which object.
        what: String,
        /// What happens to it.
        doing: &'static str,
    },
    /// This version is not reached over plain HTTP.
    #[error(
        "Weka {0} serves HTTPS only: start this cluster with --tls before, or with --plain-http for clients that cannot use it"
    )]
    PlainHttp(Release),
    /// The request is not what it should be.
    #[error("{0}")]
    Invalid(String),
}

impl Refusal {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Unauthenticated(_) => 401,
            Self::Forbidden { .. } => 403,
            Self::NoSuchPath
            | Self::FilesystemMissing(_)
            | Self::SnapshotMissing(_)
            | Self::FilesystemGroupMissing(_)
            | Self::ClientGroupMissing(_)
            | Self::PermissionMissing(_)
            | Self::PathMissing(_)
            | Self::InodeMissing(_)
            | Self::QuotaMissing { not_found: true } => 404,
            Self::QuotaMissing { not_found: false } => 500,
            Self::NameTaken { .. } | Self::Busy { .. } => 409,
            Self::DirectoryNotEmpty
            | Self::CapacityExceeded { .. }
            | Self::PlainHttp(_)
            | Self::Invalid(_) => 400,
        }
    }

    /// The cluster's name for it.
    pub fn exception(&self) -> &'static str {
        match self {
            Self::Unauthenticated(_) => "AuthenticationFailedException",
            Self::Forbidden { .. } => "PermissionDeniedException",
            Self::NoSuchPath => "NotFoundException",
            Self::FilesystemMissing(_) => "FilesystemDoesNotExistException",
            Self::SnapshotMissing(_) => "SnapshotDoesNotExistException",
            Self::FilesystemGroupMissing(_) => "FilesystemGroupDoesNotExistException",
            Self::ClientGroupMissing(_) => "ClientGroupDoesNotExistException",
            Self::PermissionMissing(_) => "PermissionDoesNotExistException",
            Self::PathMissing(_) => "PathNotFoundException",
            Self::InodeMissing(_) => "InodeDoesNotExistException",
            Self::QuotaMissing { .. } => "QuotaDoesNotExistException",
            Self::DirectoryNotEmpty => "DirectoryNotEmptyException",
            Self::NameTaken { .. } => "AlreadyExistsException",
            Self::CapacityExceeded { .. } => "InsufficientCapacityException",
            Self::Busy { .. } => "ObjectBusyException",
            Self::PlainHttp(_) | Self::Invalid(_) => "InvalidArgumentException",
        }
    }
}
