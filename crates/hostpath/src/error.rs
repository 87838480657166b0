//! Why a call fails, and the one place where that becomes a gRPC code.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
pub(crate) use stowage_api::causes::chain;
use stowage_api::quantity::QuantityError;
use stowage_csi::check::Violation;
use stowage_csi::locks::VolumeBusy;
use stowage_host::PathError;
use stowage_host::copy::CopyError;
use stowage_host::exec::ExecError;
use stowage_host::filesystem::{FsError, FsKind};
use stowage_host::flush::FlushError;
use stowage_host::loopdev::LoopError;
use stowage_host::mount::MountError;
use stowage_host::stat::StatError;
use tonic::{Code, Status};

use crate::capacity::SizeError;
use crate::id::NodeId;
use crate::mutable::MutableError;
use crate::state::StateError;
use crate::usage::UsageError;

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error(transparent)]
    Busy(#[from] VolumeBusy),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Mutable(#[from] MutableError),
    #[error(
        "the filesystem of the state directory, or its block size, does not allow direct I/O for loop devices"
    )]
    NoDirectIo(#[source] LoopError),

    #[error("volume `{0}` does not exist")]
    VolumeMissing(String),
    #[error("snapshot `{0}` does not exist")]
    SnapshotMissing(String),
    #[error("group snapshot `{0}` does not exist")]
    GroupMissing(String),
    #[error("snapshot `{id}` is a member of group snapshot `{group}`: delete the group snapshot")]
    GroupMember { id: String, group: String },
    #[error("group snapshot `{id}` has different members: {}", members.join(", "))]
    OtherMembers { id: String, members: Vec<String> },
    #[error("node `{0}` is not known to this driver")]
    NodeUnknown(String),
    #[error(
        "`{id}` is on node `{node}`, but this is node `{here}`: data is only available on its own node"
    )]
    OtherNode {
        id: String,
        node: NodeId,
        here: NodeId,
    },
    #[error(
        "the source `{id}` is on node `{node}`, but this is node `{here}`: a copy can only be made on the node of its source"
    )]
    SourceElsewhere {
        id: String,
        node: NodeId,
        here: NodeId,
    },
    #[error(
        "none of the requested topologies includes node `{0}`, where the volume would be created"
    )]
    Unreachable(NodeId),

    #[error("`{name}` already exists with {difference}, which is not what the request asks for")]
    Incompatible { name: String, difference: String },
    #[error("the source holds {is}, and a copy of it cannot be {asked}")]
    OtherFilesystem { is: FsKind, asked: FsKind },
    #[error("volume `{id}` is in use: {by}")]
    InUse { id: String, by: String },
    #[error("volume `{id}` is attached to node `{node}`")]
    AttachedElsewhere { id: String, node: String },
    #[error("node `{node}` already has {limit} volumes, which is its limit")]
    NodeFull { node: String, limit: u32 },
    #[error("{wanted} bytes are needed, but only {available} are left")]
    NoCapacity { wanted: u64, available: u64 },
    #[error("the starting token is not valid: start again without a token")]
    BadToken,
    #[error(
        "volume `{id}` is a raw block volume in use, and the filesystem of the state directory cannot copy it at one point in time (no reflink): unpublish it first"
    )]
    LiveBlock { id: String },
    #[error(
        "`{first}` and `{second}` are raw block volumes in use, which cannot be copied at the same point in time: unpublish all of them but one"
    )]
    LiveBlocks { first: String, second: String },
    #[error(
        "copying the group would stop its writers for longer than {} s: put the state directory on a filesystem that shares blocks (xfs, btrfs), take fewer volumes together, or raise --max-group-freeze",
        limit.as_secs()
    )]
    FrozenTooLong { limit: Duration },

    #[error("volume `{id}` is not staged at `{}`", path.display())]
    NotStaged { id: String, path: PathBuf },
    #[error("volume `{id}` is not mounted at `{}`", path.display())]
    NotMounted { id: String, path: PathBuf },
    #[error("volume `{id}` is already mounted at `{}`, but {difference}", path.display())]
    MountedDifferently {
        id: String,
        path: PathBuf,
        difference: &'static str,
    },
    #[error("volume `{id}` allows only one writer and is already published at `{}`", path.display())]
    SecondWriter { id: String, path: PathBuf },
    #[error("`{0}` is not a valid id of an inline volume")]
    EphemeralId(String),
    #[error("the volume attribute `size` of the inline volume is not valid")]
    EphemeralSize(#[source] QuantityError),
    #[error(
        "the volume has {actual} bytes, but {wanted} are requested: call ControllerExpandVolume first"
    )]
    NotExpanded { actual: u64, wanted: u64 },

    #[error(transparent)]
    Loop(#[from] LoopError),
    #[error(transparent)]
    Flush(#[from] FlushError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Filesystem(#[from] FsError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Stat(#[from] StatError),
    #[error(transparent)]
    Io(#[from] PathError),
    /// The filesystem cannot hold what was asked for.
    #[error("a btrfs cannot be grown to {bytes} bytes: the kernel can only grow it to {} or more", FsKind::Btrfs.growth_minimum_bytes())]
    GrowthTooSmall { bytes: u64 },
}

impl Error {
    fn code(&self) -> Code {
        match self {
            Self::Violation(violation) => violation.code(),
            Self::State(error) => state_code(error),
            Self::Usage(error) => usage_code(error),
            Self::Mutable(_)
            | Self::NoDirectIo(_)
            | Self::OtherFilesystem { .. }
            | Self::GroupMember { .. }
            | Self::OtherMembers { .. }
            | Self::EphemeralId(_)
            | Self::EphemeralSize(_) => Code::InvalidArgument,
            Self::Busy(_) | Self::BadToken => Code::Aborted,
            Self::VolumeMissing(_)
            | Self::SnapshotMissing(_)
            | Self::GroupMissing(_)
            | Self::NodeUnknown(_)
            | Self::NotMounted { .. } => Code::NotFound,
            Self::OtherNode { .. }
            | Self::InUse { .. }
            | Self::AttachedElsewhere { .. }
            | Self::LiveBlock { .. }
            | Self::LiveBlocks { .. }
            | Self::FrozenTooLong { .. }
            | Self::NotStaged { .. }
            | Self::SecondWriter { .. } => Code::FailedPrecondition,
            Self::SourceElsewhere { .. }
            | Self::Unreachable(_)
            | Self::NodeFull { .. }
            | Self::NoCapacity { .. } => Code::ResourceExhausted,
            Self::Incompatible { .. } | Self::MountedDifferently { .. } => Code::AlreadyExists,
            Self::Size(_) | Self::NotExpanded { .. } | Self::GrowthTooSmall { .. } => {
                Code::OutOfRange
            }
            Self::Loop(error) => loop_code(error),
            Self::Flush(FlushError::Hung { .. }) => Code::Unavailable,
            Self::Flush(FlushError::Refusal { source, .. }) => io_code(source),
            Self::Mount(error) => mount_code(error),
            Self::Filesystem(error) => filesystem_code(error),
            Self::Copy(CopyError::Write(source)) | Self::Io(PathError { source, .. }) => {
                io_code(source)
            }
            Self::Copy(CopyError::Read(_) | CopyError::Shrunk { .. }) => Code::Internal,
            Self::Stat(error) => stat_code(error),
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

fn state_code(error: &StateError) -> Code {
    match error {
        StateError::Locked { .. } => Code::Aborted,
        StateError::Damaged { .. }
        | StateError::ImageLost { .. }
        | StateError::FilesystemLost { .. }
        | StateError::RecordLost { .. } => Code::DataLoss,
        StateError::Io(error) => io_code(&error.source),
    }
}

fn usage_code(error: &UsageError) -> Code {
    match error {
        UsageError::Contradiction(_) | UsageError::Filesystem(_) | UsageError::MountFlag(_) => {
            Code::InvalidArgument
        }
        UsageError::OtherAccess { .. } => Code::FailedPrecondition,
    }
}

/// What the disk says when it is full is for the caller to know: another node may have room.
fn io_code(error: &io::Error) -> Code {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => Code::ResourceExhausted,
        Some(Errno::FBIG) => Code::OutOfRange,
        _ => Code::Internal,
    }
}

fn loop_code(error: &LoopError) -> Code {
    match error {
        LoopError::Control { .. } | LoopError::Node { .. } => Code::FailedPrecondition,
        LoopError::Contention { .. } => Code::Unavailable,
        LoopError::OtherAccess { .. } => Code::AlreadyExists,
        LoopError::Backing(_) | LoopError::Refusal { .. } => Code::Internal,
    }
}

fn mount_code(error: &MountError) -> Code {
    match error {
        MountError::Occupied { .. } | MountError::MountPoint { .. } => Code::AlreadyExists,
        MountError::Busy { .. } => Code::FailedPrecondition,
        MountError::Hung { .. } => Code::Unavailable,
        MountError::Helper { source, .. } => exec_code(source),
        MountError::Table(_) | MountError::Refusal { .. } | MountError::Unidentified { .. } => {
            Code::Internal
        }
    }
}

fn filesystem_code(error: &FsError) -> Code {
    match error {
        FsError::UnknownKind { .. } => Code::InvalidArgument,
        FsError::Tool(error) => exec_code(error),
        FsError::TooSmall { .. } | FsError::GrowthTooSmall { .. } => Code::OutOfRange,
        // What was written to the volume is not what its class says, or it needs a person.
        FsError::Foreign { .. }
        | FsError::Unmade { .. }
        | FsError::Damaged { .. }
        | FsError::PendingLog { .. }
        | FsError::NotMounted { .. }
        // For the kubelet this code means: not while it is in use. It grows when it is staged next.
        | FsError::GrowthRight { .. } => Code::FailedPrecondition,
        FsError::Size(error) => stat_code(error),
        FsError::Mount(error) => mount_code(error),
        FsError::Unreadable { .. }
        | FsError::SameIdentity { .. }
        | FsError::Table(_)
        | FsError::Refusal { .. } => Code::Internal,
    }
}

fn exec_code(error: &ExecError) -> Code {
    match error {
        ExecError::ToolMissing { .. } => Code::FailedPrecondition,
        ExecError::Timeout { .. } => Code::DeadlineExceeded,
        ExecError::Start { .. } | ExecError::Pipe { .. } | ExecError::Failure { .. } => {
            Code::Internal
        }
    }
}

fn stat_code(error: &StatError) -> Code {
    match error {
        StatError::Hung { .. } => Code::Unavailable,
        StatError::Refusal { source, .. } => io_code(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_every_cause() {
        let error = PathError::at("write", "/state/x.img")(Errno::NOSPC);
        let status = Status::from(Error::from(error));
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(
            status
                .message()
                .starts_with("cannot write `/state/x.img`: No space left"),
            "{status}"
        );
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let missing = ExecError::ToolMissing {
            tool: "mkfs.xfs",
            package: "xfsprogs",
        };
        let status = Status::from(Error::Filesystem(missing.into()));
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(
            status.message(),
            "host tool `mkfs.xfs` is missing: install Debian package `xfsprogs`"
        );
    }
}
