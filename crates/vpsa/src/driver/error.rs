//! Why a call fails, and the code it is answered with.

use std::path::PathBuf;

use stowage_api::causes::chain;
use stowage_csi::locks::VolumeBusy;
use stowage_host::filesystem::FsError;
use stowage_host::flush::FlushError;
use stowage_host::mount::MountError;
use stowage_host::stat::StatError;
use stowage_kubernetes::object_error::ObjectError;
use tonic::{Code, Status};

use super::node::disk::DiskError;
use super::node::iscsi::IscsiError;
use super::node::multipath::MultipathError;
use super::parameters::ParameterError;
use super::publication::PublicationError;
use crate::vsc::attachment::step::NOT_CLEAN;
use crate::vsc::cipher::CipherError;
use crate::vsc::error::NO_ROOM;
use crate::vsc::volume::step::REFUSED;

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another call works on the same volume.
    #[error(transparent)]
    Busy(#[from] VolumeBusy),
    /// A parameter of the storage class.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A volume cannot be used like this.
    #[error("{0}")]
    Usage(String),
    /// No volume can have this size.
    #[error("{0}")]
    Size(String),
    /// It is not there.
    #[error("{kind} `{name}` does not exist")]
    Missing {
        /// Of which kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// There is something of this name, and it is not what is asked for.
    #[error("{kind} `{name}` exists already and has {difference}")]
    Incompatible {
        /// Of which kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is different.
        difference: String,
    },
    /// Something has to be done by a person, or by another call, first.
    #[error("{0}")]
    Precondition(String),
    /// The page does not begin anywhere.
    #[error("starting_token is not one that this driver gave out: begin again without it")]
    BadToken,
    /// The control plane has not done it.
    #[error("{kind} `{name}` is not {wanted}: {message}")]
    Unfinished {
        /// Of which kind.
        kind: String,
        /// Its name.
        name: String,
        /// What it should be.
        wanted: &'static str,
        /// The reason of its condition.
        word: String,
        /// The message of its condition.
        message: String,
    },
    /// The API server.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// What the controller said is not understood.
    #[error(transparent)]
    Publication(#[from] PublicationError),
    /// The secret of logins.
    #[error("the CHAP secret of the VPSA")]
    Cipher(#[from] CipherError),
    /// A session.
    #[error(transparent)]
    Iscsi(#[from] IscsiError),
    /// A disk that several paths lead to.
    #[error(transparent)]
    Multipath(#[from] MultipathError),
    /// Which disks there are.
    #[error(transparent)]
    Disks(#[from] DiskError),
    /// The session is there, and the disk is not.
    #[error("disk {lun} of {target} did not show up within {seconds} s of the login")]
    NoDisk {
        /// The target.
        target: String,
        /// The number.
        lun: u64,
        /// How long it was waited.
        seconds: u64,
    },
    /// The control plane has not attached it, or does not say how.
    #[error("{0}")]
    Unattached(String),
    /// A filesystem on a disk.
    #[error(transparent)]
    Filesystem(#[from] FsError),
    /// A mount.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A mount that may hang.
    #[error(transparent)]
    Stat(#[from] StatError),
    /// What was written to a disk is not on the array.
    #[error(
        "the disk is not let go of before its VPSA has everything: look whether this node reaches the VPSA"
    )]
    Unwritten(#[source] FlushError),
    /// It has to be staged before.
    #[error("volume `{volume}` is not staged at {}", path.display())]
    NotStaged {
        /// The volume.
        volume: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// Nothing is mounted there.
    #[error("no volume is mounted at {}", .0.display())]
    NotMounted(PathBuf),
    /// What is mounted there is on a disk, and not on one that this node knows as an array's.
    #[error("the disk of the volume at {} is not among the links to disks of VPSAs (/dev/disk/by-path): does udev run on the node?", .0.display())]
    UnknownDisk(PathBuf),
    /// The disk is not larger.
    #[error("the disk has {bytes} bytes, less than the {wanted} that it should have grown to")]
    NotExpanded {
        /// What it has.
        bytes: u64,
        /// What it should have.
        wanted: u64,
    },
}

impl Error {
    fn code(&self) -> Code {
        match self {
            Self::Busy(_) | Self::BadToken => Code::Aborted,
            Self::Parameter(_) | Self::Usage(_) | Self::Publication(_) => Code::InvalidArgument,
            Self::Size(_) => Code::OutOfRange,
            Self::Missing { .. } | Self::NotMounted(_) => Code::NotFound,
            Self::Incompatible { .. } => Code::AlreadyExists,
            Self::Precondition(_) | Self::NotStaged { .. } | Self::Cipher(_) => {
                Code::FailedPrecondition
            }
            Self::Iscsi(error) => match error {
                IscsiError::Authentication(_) => Code::Unauthenticated,
                IscsiError::Tool { .. }
                | IscsiError::NoPortal { .. }
                | IscsiError::OtherName { .. } => Code::Unavailable,
                IscsiError::Record { .. } => Code::Internal,
            },
            Self::Mount(error) => mount_code(error),
            // A person has to write to it first, or to name another filesystem.
            Self::Filesystem(FsError::Unmade { .. }) => Code::FailedPrecondition,
            Self::Filesystem(_) | Self::Stat(_) | Self::NotExpanded { .. } => Code::Internal,
            Self::Unfinished { word, .. } => code_of(word),
            Self::Object(_)
            | Self::NoDisk { .. }
            | Self::Disks(_)
            | Self::Unwritten(_)
            | Self::Multipath(_)
            | Self::UnknownDisk(_)
            | Self::Unattached(_) => Code::Unavailable,
        }
    }
}

fn mount_code(error: &MountError) -> Code {
    match error {
        MountError::Occupied { .. } | MountError::MountPoint { .. } => Code::AlreadyExists,
        MountError::Busy { .. } => Code::FailedPrecondition,
        MountError::Hung { .. } | MountError::Helper { .. } => Code::Unavailable,
        MountError::Refusal { .. } | MountError::Table(_) | MountError::Unidentified { .. } => {
            Code::Internal
        }
    }
}

/// The code for the reason of a condition. What is only under way ends in time, or not.
fn code_of(word: &str) -> Code {
    match word {
        "NoArray" | NO_ROOM => Code::ResourceExhausted,
        "InvalidSpec" => Code::InvalidArgument,
        "NameTaken" => Code::AlreadyExists,
        "OtherType" | "NodeNotFit" | "OtherMode" | "Missing" | "Attached" | "HasSnapshots"
        | "DuplicateInitiator" | "DuplicateAddress" | "OtherSnapshot" | NOT_CLEAN => {
            Code::FailedPrecondition
        }
        refused if REFUSED.contains(&refused) => Code::FailedPrecondition,
        "ArrayFailed" | "SourceMissing" | "Unhealthy" => Code::Unavailable,
        _ => Code::DeadlineExceeded,
    }
}

/// Whether waiting is in vain for as long as nobody does something about it.
pub fn is_trouble(word: &str) -> bool {
    code_of(word) != Code::DeadlineExceeded
}

/// Whether nothing is on an array, and the same call would have to be made again anyway.
pub fn is_final(error: &Error) -> bool {
    let Error::Unfinished { word, .. } = error else {
        return false;
    };
    // It may be there, and be too small.
    if word == NO_ROOM {
        return false;
    }
    matches!(
        code_of(word),
        Code::ResourceExhausted | Code::InvalidArgument | Code::AlreadyExists
    )
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_code_and_the_message_names_object_and_reason() {
        let unfinished = |word: &str| Error::Unfinished {
            kind: "Volume".to_owned(),
            name: "v".to_owned(),
            wanted: "ready",
            word: word.to_owned(),
            message: "why".to_owned(),
        };
        for (word, code, is_last) in [
            ("NoArray", Code::ResourceExhausted, true),
            ("InvalidSpec", Code::InvalidArgument, true),
            ("NameTaken", Code::AlreadyExists, true),
            ("ArrayFailed", Code::Unavailable, false),
            ("NoRoom", Code::ResourceExhausted, false),
            ("HasSnapshots", Code::FailedPrecondition, false),
            ("OtherVolume", Code::FailedPrecondition, false),
            ("Provisioning", Code::DeadlineExceeded, false),
        ] {
            let error = unfinished(word);
            assert_eq!(is_final(&error), is_last, "{word}");
            let status = Status::from(error);
            assert_eq!(status.code(), code, "{word}");
            assert_eq!(status.message(), "Volume `v` is not ready: why");
        }
    }
}
