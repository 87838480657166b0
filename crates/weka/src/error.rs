//! Why a call fails, and the one place where that becomes a gRPC code.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
pub(crate) use stowage_api::causes::chain;
use stowage_csi::locks::VolumeBusy;
use stowage_host::PathError;
use stowage_host::beneath::BeneathError;
use stowage_host::exec::ExecError;
use stowage_host::mount::MountError;
use stowage_host::workers::Stuck;
use tonic::{Code, Status};

use crate::capacity::SizeError;
use crate::handle::HandleError;
use crate::options::OptionError;
use crate::parameters::ParameterError;
use crate::procfs::{ClientError, OTHER_NODE};
use crate::rest::ApiError;
use crate::rest::error::AccessError;

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Busy(#[from] VolumeBusy),
    #[error(transparent)]
    Handle(#[from] HandleError),
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Beneath(#[from] BeneathError),
    #[error(
        "{what} does not answer on this node; other filesystems are not affected; check `weka local ps` on the node"
    )]
    Hung {
        what: String,
        #[source]
        source: Stuck,
    },

    #[error(
        "raw block volumes are not supported: a Weka volume is a directory; use volumeMode Filesystem"
    )]
    Block,
    #[error(
        "volume `{0}` is {1}, which this driver does not support: use a directory (`dir/v1/FILESYSTEM/PATH` or `weka/v2/FILESYSTEM/PATH`)"
    )]
    Backing(String, &'static str),
    #[error("volume `{0}` does not exist")]
    VolumeMissing(String),
    #[error("path `/{}` does not exist on filesystem `{filesystem}`: create the directory, or correct the volume handle", path.display())]
    PathMissing { filesystem: String, path: PathBuf },
    #[error(
        "filesystem `{0}` does not exist on the Weka cluster, or not in the organization of the secret: create it, or correct parameter `filesystemName`"
    )]
    FilesystemMissing(String),
    #[error(
        "the secret of this call shows no filesystem `{filesystem}`, so nobody can tell whether volume `{id}` exists: correct the secret (cluster, organization), or, if the filesystem was deleted with all that was on it, delete the PersistentVolume by hand"
    )]
    FilesystemHidden { filesystem: String, id: String },
    #[error(
        "filesystem `{0}` is not encrypted, but parameter `encryptionEnabled` requires it: use an encrypted filesystem, or remove the parameter"
    )]
    NotEncrypted(String),
    #[error(
        "volume `{0}` was not created by this driver, so the driver does not delete it: remove its directory by hand and use the reclaim policy Retain"
    )]
    NotOurs(String),
    #[error(
        "volume `{name}` already exists with {difference}, which is not what the request asks for"
    )]
    Incompatible { name: String, difference: String },
    #[error("volume `{0}` has no quota, so its capacity cannot be enforced")]
    NoQuota(String),
    #[error(
        "this call needs the legacy secret: mount it, and name it with --legacyvolumesecretname"
    )]
    NoCredentials,
    #[error("the starting token is not valid: start again without a token")]
    BadToken,
    #[error("volume `{id}` cannot be published at `{}`: the mount that is already there {difference}", path.display())]
    PublishedDifferently {
        id: String,
        path: PathBuf,
        difference: &'static str,
    },
    #[error("volume `{id}` is not mounted at `{}`", path.display())]
    NotPublished { id: String, path: PathBuf },
    #[error("volume `{id}` allows only one writer and is already published at `{}`", path.display())]
    SecondWriter { id: String, path: PathBuf },
    #[error("the mount at `{}` does not answer: check `weka local ps` on the node", .0.display())]
    MountHung(PathBuf),
    #[error(
        "mounting filesystem `{filesystem}` on this node has not ended yet, after {seconds} s; a retry waits for the same mount"
    )]
    MountUnfinished { filesystem: String, seconds: u64 },
    #[error(
        "mounting filesystem `{filesystem}` on this node has not ended for {seconds} s and cannot be stopped: the kernel does not let go of it; no second attempt is made until it ends: check `weka local ps` on the node, restart its Weka client, or reboot the node"
    )]
    MountStuck { filesystem: String, seconds: u64 },
    #[error("`{}` already holds a mount of type {kind}, which does not belong to this driver: unmount it", path.display())]
    ForeignMount { path: PathBuf, kind: String },
    #[error("filesystem `{0}` was unmounted while it was in use: retry the call")]
    MountLost(String),
    #[error(
        "filesystem `{filesystem}` as mounted on this node does not belong to Weka cluster `{cluster}`: the node is a client of another cluster; {OTHER_NODE}"
    )]
    OtherCluster { filesystem: String, cluster: String },
    #[error(
        "Weka cluster `{cluster}` does not list container `{container}` on this node, so the node may be a client of another cluster: {OTHER_NODE}"
    )]
    UnconfirmedContainer {
        cluster: String,
        container: String,
        #[source]
        source: Box<Error>,
    },
    #[error(
        "too many calls of this kind are in progress for this cluster: retry later, or raise the driver's --concurrency flags"
    )]
    Crowded,
    #[error("the call did not finish in time; a retry continues what it started")]
    DeadlineExceeded,
    #[error("cannot read the annotations of {what}: {reason}")]
    Annotations { what: String, reason: String },
    #[error(transparent)]
    Io(#[from] PathError),
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Access(error.into())
    }
}

impl Error {
    /// Work on a filesystem that does not come back.
    pub(crate) fn hung(filesystem: &str) -> impl FnOnce(Stuck) -> Self {
        let what = format!("filesystem `{filesystem}`");
        move |source| Self::Hung { what, source }
    }

    /// Whether the same call can never succeed: then nothing half-made should stay.
    pub(crate) fn is_final(&self) -> bool {
        let error = match self {
            Self::Access(AccessError::Api(error)) => error,
            Self::OtherCluster { .. } => return true,
            _ => return false,
        };
        match error {
            ApiError::Forbidden { .. }
            | ApiError::TooOld { .. }
            | ApiError::Missing { .. }
            | ApiError::Refused { .. } => true,
            ApiError::Unreachable { .. }
            | ApiError::Deadline { .. }
            | ApiError::Untrusted { .. }
            | ApiError::Scheme(_)
            | ApiError::CaCertificate(_)
            | ApiError::Client(_)
            | ApiError::Login { .. }
            | ApiError::LoginRefused { .. }
            | ApiError::Malformed { .. }
            | ApiError::Ambiguous(_) => false,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Busy(_) | Self::BadToken => Code::Aborted,
            Self::Handle(_)
            | Self::Parameter(_)
            | Self::Option(_)
            | Self::Block
            | Self::NotEncrypted(_)
            | Self::FilesystemMissing(_) => Code::InvalidArgument,
            Self::Size(_) => Code::OutOfRange,
            Self::Access(error) => access_code(error),
            Self::Client(_)
            | Self::Backing(..)
            | Self::NotOurs(_)
            | Self::SecondWriter { .. }
            | Self::NoQuota(_)
            | Self::NoCredentials
            | Self::FilesystemHidden { .. }
            | Self::OtherCluster { .. }
            | Self::ForeignMount { .. } => Code::FailedPrecondition,
            Self::VolumeMissing(_) | Self::PathMissing { .. } | Self::NotPublished { .. } => {
                Code::NotFound
            }
            Self::Incompatible { .. } | Self::PublishedDifferently { .. } => Code::AlreadyExists,
            Self::Hung { .. }
            | Self::MountHung(_)
            | Self::MountStuck { .. }
            | Self::MountLost(_)
            | Self::Crowded
            | Self::Annotations { .. } => Code::Unavailable,
            Self::MountUnfinished { .. } | Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::UnconfirmedContainer { source, .. } => source.code(),
            Self::Mount(error) => mount_code(error),
            Self::Beneath(error) => beneath_code(error),
            Self::Io(error) => io_code(&error.source),
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

fn access_code(error: &AccessError) -> Code {
    match error {
        AccessError::Secret(_) => Code::InvalidArgument,
        AccessError::Legacy { .. } => Code::FailedPrecondition,
        AccessError::Api(error) => api_code(error),
    }
}

fn api_code(error: &ApiError) -> Code {
    match error {
        ApiError::Unreachable { .. } => Code::Unavailable,
        ApiError::Deadline { .. } => Code::DeadlineExceeded,
        ApiError::Untrusted { .. }
        | ApiError::Scheme(_)
        | ApiError::TooOld { .. }
        | ApiError::Ambiguous(_) => Code::FailedPrecondition,
        ApiError::CaCertificate(_) => Code::InvalidArgument,
        ApiError::Login { .. } | ApiError::LoginRefused { .. } => Code::Unauthenticated,
        ApiError::Forbidden { .. } => Code::PermissionDenied,
        ApiError::Missing { .. } => Code::NotFound,
        ApiError::Refused { .. } | ApiError::Malformed { .. } | ApiError::Client(_) => {
            Code::Internal
        }
    }
}

/// What the filesystem says when it is full is for the caller to know.
fn io_code(error: &io::Error) -> Code {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => Code::ResourceExhausted,
        Some(Errno::NOTCONN | Errno::STALE | Errno::HOSTDOWN | Errno::TIMEDOUT) => {
            Code::Unavailable
        }
        _ => Code::Internal,
    }
}

fn beneath_code(error: &BeneathError) -> Code {
    match error {
        BeneathError::Escape { .. } | BeneathError::Link { .. } | BeneathError::Nameless { .. } => {
            Code::InvalidArgument
        }
        BeneathError::Kind { .. } | BeneathError::Mounted { .. } => Code::FailedPrecondition,
        BeneathError::Stopped { .. } => Code::Aborted,
        BeneathError::Refusal { source, .. } => io_code(source),
    }
}

fn mount_code(error: &MountError) -> Code {
    match error {
        MountError::Occupied { .. } | MountError::MountPoint { .. } => Code::AlreadyExists,
        MountError::Busy { .. } => Code::FailedPrecondition,
        MountError::Hung { .. } => Code::Unavailable,
        MountError::Helper { source, .. } => match source {
            ExecError::ToolMissing { .. } => Code::FailedPrecondition,
            ExecError::Timeout { .. } => Code::DeadlineExceeded,
            ExecError::Start { .. } | ExecError::Pipe { .. } | ExecError::Failure { .. } => {
                Code::Internal
            }
        },
        MountError::Refusal { source, .. } => io_code(source),
        MountError::Table(_) | MountError::Unidentified { .. } => Code::Internal,
    }
}
