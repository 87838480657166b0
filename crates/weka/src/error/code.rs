//! The one place where a failure becomes a gRPC code.

use std::io;

use rustix::io::Errno;
use stowage_host::beneath::BeneathError;
use stowage_host::exec::ExecError;
use stowage_host::mount::MountError;
use tonic::{Code, Status};

use super::{Error, chain};
use crate::rest::ApiError;
use crate::rest::error::AccessError;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

impl Error {
    /// Whether the answer ends the call: whoever gets it need not call again, so nothing half-made may stay behind. After
    /// the other codes the same call is made until it has such an answer.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(
            self.code(),
            Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted
        )
    }

    pub(super) fn code(&self) -> Code {
        match self {
            Self::Busy(_) | Self::BadToken => Code::Aborted,
            Self::Handle(_)
            | Self::SnapshotId(_)
            | Self::Parameter(_)
            | Self::Option(_)
            | Self::Block
            | Self::NeedsApi(_)
            | Self::NotEncrypted(_)
            | Self::OtherFilesystem { .. }
            | Self::GroupMissing(_)
            | Self::FilesystemMissing(_) => Code::InvalidArgument,
            Self::Size(_) => Code::OutOfRange,
            Self::Full(_) => Code::ResourceExhausted,
            Self::MayNotCreateFilesystems => Code::PermissionDenied,
            Self::Access(error) => access_code(error),
            Self::Client(_)
            | Self::Encryption(_)
            | Self::Nfs(_)
            | Self::LabelLost(_)
            | Self::VolumeSecret(_)
            | Self::MayNotCopyDirectories(_)
            | Self::FilesystemNotEmpty { .. }
            | Self::SeedNotEmpty { .. }
            | Self::WritableSnapshot(_)
            | Self::HasSnapshots { .. }
            | Self::NotOurs(_)
            | Self::SecondWriter { .. }
            | Self::NoQuota(_)
            | Self::NoCredentials
            | Self::FilesystemHidden { .. }
            | Self::OtherCluster { .. }
            | Self::ForeignMount { .. } => Code::FailedPrecondition,
            Self::VolumeMissing(_)
            | Self::SnapshotMissing(_)
            | Self::PathMissing { .. }
            | Self::NotPublished { .. } => Code::NotFound,
            Self::Incompatible { .. }
            | Self::AccessPointTaken { .. }
            | Self::SnapshotClash { .. }
            | Self::PublishedDifferently { .. } => Code::AlreadyExists,
            Self::Hung { .. }
            | Self::FilesystemRemoving(_)
            | Self::FilesystemVanished(_)
            | Self::MountHung(_)
            | Self::MountStuck { .. }
            | Self::MountLost(_)
            | Self::HalfMade { .. }
            | Self::Unseen { .. }
            | Self::Crowded
            | Self::Kubernetes(_)
            | Self::Annotations { .. } => Code::Unavailable,
            Self::MountUnfinished { .. } | Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::UnconfirmedContainer { source, .. } => source.code(),
            Self::Mount(error) => mount_code(error),
            Self::Beneath(error) => beneath_code(error),
            Self::Io(error) => io_code(&error.source),
        }
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
        // A question without an answer says nothing of what is there.
        ApiError::Unreachable { .. }
        | ApiError::Refused {
            is_question: true,
            status: 500..,
            ..
        } => Code::Unavailable,
        ApiError::Deadline { .. } => Code::DeadlineExceeded,
        ApiError::Untrusted { .. }
        | ApiError::Scheme(_)
        | ApiError::TooOld { .. }
        | ApiError::Ambiguous(_) => Code::FailedPrecondition,
        ApiError::CaCertificate(_) => Code::InvalidArgument,
        ApiError::Login { .. } | ApiError::LoginRefused { .. } => Code::Unauthenticated,
        ApiError::Forbidden { .. } => Code::PermissionDenied,
        ApiError::Conflict { .. } => Code::Aborted,
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
        Some(
            Errno::NOTCONN | Errno::CONNABORTED | Errno::STALE | Errno::HOSTDOWN | Errno::TIMEDOUT,
        ) => Code::Unavailable,
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
