//! What volumes may be made, and how they are called.

use super::FlagError;
use crate::args::volumes::VolumeArgs;

/// The longest name of a filesystem and of a snapshot.
const FILESYSTEM_NAME: usize = 32;
const SNAPSHOT_NAME: usize = 50;

/// The longest name that follows a prefix: 12 characters, a dash, and 12 of a hash.
const DERIVED_NAME: usize = 25;

/// What volumes may be made, and how they are called.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct VolumeRules {
    pub(crate) create_filesystems: bool,
    /// Those that hold directories and snapshots; one that is a volume grows with it.
    pub(crate) enlarge_filesystems: bool,
    pub(crate) keep_thin_ratio: bool,
    pub(crate) own_filesystems: bool,
    pub(crate) encrypt_without_kms: bool,
    pub(crate) await_deletion: bool,
    pub(crate) snapshots_of_directories: bool,
    /// Also where nothing enforces their capacity.
    pub(crate) any_snapshot_volumes: bool,
    /// All directory volumes of a filesystem together.
    pub(crate) limit_directories: bool,
    pub(crate) volume_prefix: String,
    pub(crate) snapshot_prefix: String,
    pub(crate) seed_prefix: String,
    pub(crate) offer_snapshots: bool,
    pub(crate) offer_clones: bool,
}

impl TryFrom<VolumeArgs> for VolumeRules {
    type Error = FlagError;

    fn try_from(args: VolumeArgs) -> Result<Self, FlagError> {
        let of_snapshot = SNAPSHOT_NAME - DERIVED_NAME;
        let of_filesystem = FILESYSTEM_NAME - DERIVED_NAME;
        Ok(Self {
            create_filesystems: args.allow_auto_fs_creation,
            enlarge_filesystems: args.allow_auto_fs_expansion,
            keep_thin_ratio: args.keep_thin_provisioning_ratio,
            own_filesystems: args.set_ownership,
            encrypt_without_kms: args.allow_encryption_without_kms,
            await_deletion: args.wait_for_object_deletion,
            snapshots_of_directories: args.allow_snapshots_of_directories,
            any_snapshot_volumes: args.always_allow_snapshot_volumes,
            limit_directories: args.enforce_total_capacity,
            volume_prefix: prefix("newvolumeprefix", args.volume_prefix, of_filesystem)?,
            snapshot_prefix: prefix("newsnapshotprefix", args.snapshot_prefix, of_snapshot)?,
            seed_prefix: prefix("seedsnapshotprefix", args.seed_prefix, of_snapshot)?,
            offer_snapshots: !args.suppress_snapshots,
            offer_clones: !args.suppress_clones,
        })
    }
}

/// What the array takes as the beginning of a name.
fn prefix(flag: &'static str, text: String, longest: usize) -> Result<String, FlagError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.len() <= longest && text.chars().all(plain) {
        return Ok(text);
    }
    Err(FlagError::Prefix {
        flag,
        text,
        longest,
    })
}
