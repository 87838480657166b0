//! Flags about what volumes may be made, and how they are called.

use stowage_csi::flags::switch;

/// What volumes may be made, and how they are called.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools, clippy::duplicated_attributes)]
#[derive(clap::Args, Clone, Debug)]
#[command(
    mut_arg("allow_auto_fs_creation", switch),
    mut_arg("allow_auto_fs_expansion", switch),
    mut_arg("keep_thin_provisioning_ratio", switch),
    mut_arg("set_ownership", switch),
    mut_arg("allow_encryption_without_kms", switch),
    mut_arg("wait_for_object_deletion", switch),
    mut_arg("allow_snapshots_of_directories", switch),
    mut_arg("always_allow_snapshot_volumes", switch),
    mut_arg("suppress_snapshots", switch),
    mut_arg("suppress_clones", switch),
    mut_arg("enforce_total_capacity", switch)
)]
pub struct VolumeArgs {
    /// Create filesystems for classes without `filesystemName`
    #[arg(long = "allowautofscreation", default_value = "false")]
    pub allow_auto_fs_creation: bool,

    /// Enlarge a filesystem if a directory or snapshot volume is to be larger than all of it
    #[arg(long = "allowautofsexpansion", default_value = "false")]
    pub allow_auto_fs_expansion: bool,

    /// Enlarge thin filesystems with the capacity on drives in proportion; otherwise that capacity stays as it is
    #[arg(
        long = "keepthinprovisioningratioonexpand",
        default_value = "true",
        default_missing_value = "true"
    )]
    pub keep_thin_provisioning_ratio: bool,

    /// Let nobody but the user of the secret use new filesystems; needs Weka 5.1
    #[arg(long = "setownershipondynamicfilesystems", default_value = "false")]
    pub set_ownership: bool,

    /// Allow classes with `encryptWithoutKms`
    #[arg(long = "allowencryptionwithoutkms", default_value = "false")]
    pub allow_encryption_without_kms: bool,

    /// Answer a deletion only when the filesystem or snapshot is gone
    #[arg(long = "waitforobjectdeletion", default_value = "false")]
    pub wait_for_object_deletion: bool,

    /// Allow snapshots and clones of directory volumes; each keeps the data of the whole filesystem
    #[arg(
        long = "allowsnapshotsofdirectoryvolumes",
        alias = "allowsnapshotsoflegacyvolumes",
        default_value = "false"
    )]
    pub allow_snapshots_of_directories: bool,

    /// Allow snapshot volumes on Weka before 4.2, which does not enforce their capacity
    #[arg(long = "alwaysallowsnapshotvolumes", default_value = "false")]
    pub always_allow_snapshot_volumes: bool,

    /// Refuse directory volumes for which a filesystem has no room left beside what it has promised to others
    #[arg(long = "enforcedirvoltotalcapacity", default_value = "false")]
    pub enforce_total_capacity: bool,

    /// Prefix of the names of filesystems and snapshots that are volumes, at most 7 characters
    #[arg(
        long = "newvolumeprefix",
        value_name = "TEXT",
        default_value = "csivol-"
    )]
    pub volume_prefix: String,

    /// Prefix of the names of snapshots of volumes
    #[arg(
        long = "newsnapshotprefix",
        value_name = "TEXT",
        default_value = "csisnp-"
    )]
    pub snapshot_prefix: String,

    /// Prefix of the names of the empty snapshots that snapshot volumes are made from
    #[arg(
        long = "seedsnapshotprefix",
        value_name = "TEXT",
        default_value = "csisnp-seed-"
    )]
    pub seed_prefix: String,

    /// Do not offer snapshots
    #[arg(long = "suppresssnapshotcapability", default_value = "false")]
    pub suppress_snapshots: bool,

    /// Do not offer clones
    #[arg(long = "suppressrvolumeclonecapability", default_value = "false")]
    pub suppress_clones: bool,
}
