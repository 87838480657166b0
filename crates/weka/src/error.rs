//! Why a call fails. `code`: which gRPC code that becomes.

use std::path::PathBuf;

pub(crate) use stowage_api::causes::chain;
use stowage_csi::locks::VolumeBusy;
use stowage_host::PathError;
use stowage_host::beneath::BeneathError;
use stowage_host::mount::MountError;
use stowage_host::workers::Stuck;

use crate::capacity::SizeError;
use crate::handle::HandleError;
use crate::options::OptionError;
use crate::parameters::ParameterError;
use crate::procfs::{ClientError, OTHER_NODE};
use crate::rest::ApiError;
use crate::rest::error::AccessError;
use crate::selinux::LabelLost;
use crate::snapshot_id::SnapshotIdError;

mod code;
mod full;
mod nfs;

pub(crate) use full::FullError;
pub(crate) use nfs::NfsError;

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Busy(#[from] VolumeBusy),
    #[error(transparent)]
    Handle(#[from] HandleError),
    #[error(transparent)]
    SnapshotId(#[from] SnapshotIdError),
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
    LabelLost(#[from] LabelLost),
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
        "{0} need the API of the Weka cluster: name its secret in the class (`csi.storage.k8s.io/provisioner-secret-name` and its likes)"
    )]
    NeedsApi(&'static str),
    #[error(
        "volume `{0}` does not exist: correct the volume handle or the secret, or, if the volume was deleted on the Weka cluster, delete its claim and PersistentVolume"
    )]
    VolumeMissing(String),
    #[error("path `/{}` does not exist on filesystem `{filesystem}`: create the directory, or correct the volume handle", path.display())]
    PathMissing { filesystem: String, path: PathBuf },
    #[error(
        "filesystem `{0}` does not exist on the Weka cluster, or not in the organization of the secret: create it, or correct parameter `filesystemName`"
    )]
    FilesystemMissing(String),
    #[error(
        "the secret of this call shows no filesystem `{filesystem}`, so nobody can tell whether {kind} `{id}` exists: correct the secret (cluster, organization), or, if the filesystem was deleted with all that was on it, {remedy}"
    )]
    FilesystemHidden {
        filesystem: String,
        kind: &'static str,
        id: String,
        remedy: &'static str,
    },
    #[error(
        "filesystem `{0}` is not encrypted, but parameter `encryptionEnabled` requires it: use an encrypted filesystem, or remove the parameter"
    )]
    NotEncrypted(String),
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    #[error(transparent)]
    Nfs(#[from] NfsError),
    #[error(transparent)]
    VolumeSecret(#[from] stowage_kubernetes::secrets::SecretError),
    #[error("cannot ask Kubernetes: {0}")]
    Kubernetes(String),
    #[error(
        "the class names no filesystem, so its volumes are filesystems of their own, and the driver may not create filesystems: start it with --allowautofscreation, or set parameter `filesystemName`"
    )]
    MayNotCreateFilesystems,
    #[error(
        "volume `{0}` is a directory, and a snapshot or clone of it keeps the data of its whole filesystem, so they are not allowed: start the driver with --allowsnapshotsofdirectoryvolumes to allow them"
    )]
    MayNotCopyDirectories(String),
    #[error(
        "the Weka cluster has no filesystem group `{0}`: create it, or correct parameter `filesystemGroupName`"
    )]
    GroupMissing(String),
    #[error(
        "filesystem `{0}` is still being removed, and a new one of this name cannot be created before: the call succeeds when it is retried"
    )]
    FilesystemRemoving(String),
    #[error(
        "filesystem `{0}` disappeared while it was being created: somebody deleted it, or the Weka cluster could not complete it; a retry creates it again"
    )]
    FilesystemVanished(String),
    #[error(transparent)]
    Full(#[from] FullError),
    #[error(
        "filesystem `{filesystem}` holds data outside of snapshots (`{entry}`), so no empty snapshot of it can be made for new volumes: use an empty filesystem, or `volumeType: dir/v1`"
    )]
    FilesystemNotEmpty { filesystem: String, entry: String },
    #[error(
        "snapshot `{snapshot}` of filesystem `{filesystem}`, from which new volumes are made, is not empty (`{entry}`): delete it, and, if the filesystem is empty, the driver makes a new one"
    )]
    SeedNotEmpty {
        filesystem: String,
        snapshot: String,
        entry: String,
    },
    #[error(
        "access point `{access_point}` of filesystem `{filesystem}` belongs to snapshot `{snapshot}`, which is not a volume of this driver: delete that snapshot, or give it another access point"
    )]
    AccessPointTaken {
        filesystem: String,
        access_point: String,
        snapshot: String,
    },
    #[error(
        "snapshot `{0}` does not exist: correct the snapshot handle or the secret, or, if the snapshot was deleted on the Weka cluster, delete its VolumeSnapshot"
    )]
    SnapshotMissing(String),
    #[error(
        "snapshot `{name}` already exists, as a snapshot of another volume (on filesystem `{filesystem}`): use another name"
    )]
    SnapshotClash { name: String, filesystem: String },
    #[error(
        "snapshot `{0}` can be written, so it is not the snapshot of a volume: use a read-only snapshot"
    )]
    WritableSnapshot(String),
    #[error(
        "the source is on filesystem `{source_filesystem}`, where its copy must be too, but the class has `filesystemName: {class}`: use a class of that filesystem"
    )]
    OtherFilesystem {
        source_filesystem: String,
        class: String,
    },
    #[error(
        "filesystem `{filesystem}` has snapshots ({}), which would be deleted with it: delete them first", names.join(", ")
    )]
    HasSnapshots {
        filesystem: String,
        names: Vec<String>,
    },
    #[error(
        "`{0}` was not created by this driver, so the driver does not delete it: name its parent directory with --earlier-dynamic-path if volumes were made there before, or remove it by hand and use the reclaim policy Retain"
    )]
    NotOurs(String),
    #[error(
        "volume `{name}` already exists with {difference}, which is not what the request asks for"
    )]
    Incompatible { name: String, difference: String },
    #[error(
        "volume `{id}` was begun and cannot be completed at the moment: remove the cause, and the next attempt completes it"
    )]
    HalfMade {
        id: String,
        #[source]
        source: Box<Error>,
    },
    #[error(
        "nobody can tell at the moment whether an earlier attempt began volume `{id}`: remove the cause, and the next attempt creates or completes it"
    )]
    Unseen {
        id: String,
        #[source]
        source: Box<Error>,
    },
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

/// Why a filesystem cannot be encrypted as its class wants it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncryptionError {
    #[error(
        "the Weka cluster has no KMS, which encryption needs: configure HashiCorp Vault or KMIP there, or set parameter `encryptWithoutKms` and start the driver with --allowencryptionwithoutkms"
    )]
    NoKms,
    #[error(
        "parameter `encryptWithoutKms` is not allowed: start the driver with --allowencryptionwithoutkms, or use a KMS"
    )]
    WithoutKms,
    #[error(
        "a key for each filesystem (`kmsVaultKeyIdentifier`) needs HashiCorp Vault with RoleId and SecretId, and the KMS of the Weka cluster is {0}: remove the key from class and secret, or change the KMS"
    )]
    NoVault(String),
    #[error(
        "a key for each filesystem needs `kmsVaultRoleIdForFilesystemEncryption` and `kmsVaultSecretIdForFilesystemEncryption` in the secret: add them"
    )]
    NoRole,
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

    /// Whether the Weka client of this node cannot be used, and nothing else is known to be wrong.
    pub(crate) fn is_of_client(&self) -> bool {
        match self {
            Self::Client(error) => !matches!(error, ClientError::Ambiguous(_)),
            Self::Hung { .. } => true,
            _ => false,
        }
    }

    /// Whether a filesystem cannot be mounted in one way: another may work.
    pub(crate) fn is_of_mount(&self) -> bool {
        matches!(
            self,
            Self::Mount(_) | Self::UnconfirmedContainer { .. } | Self::Nfs(NfsError::Denied { .. })
        )
    }
}
