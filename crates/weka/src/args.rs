//! The command line as it is typed. Flags have the names that manifests for Weka use; what they mean is in `config`.

use std::path::PathBuf;

use stowage_csi::flags::{DriverArgs, switch};

use self::client_files::ClientFiles;
use crate::options::DEFAULT_EXCLUSIVE;

pub(crate) mod client_files;
pub(crate) mod figures;
pub(crate) mod foreign;
pub(crate) mod nfs;
pub(crate) mod volumes;

/// Flags of `stowage driver weka`.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(clap::Args, Clone, Debug)]
#[command(
    mut_arg("driver_name", |arg| arg.env("CSI_DRIVER_NAME").default_value("csi.weka.io").required(false)),
    mut_arg("mode", |arg| arg.env("X_CSI_MODE").visible_alias("csimode")),
    mut_arg("allow_insecure_https", switch),
    mut_arg("rotate_endpoints", switch),
    mut_arg("skip_garbage_collection", switch),
    mut_arg("manage_node_topology_labels", switch),
    mut_arg("allow_mount_option_overrides", switch),
    mut_arg("selinux_support", switch),
)]
pub struct Args {
    /// What every driver has.
    #[command(flatten)]
    pub driver: DriverArgs,

    /// Name of this node in Kubernetes
    #[arg(long = "nodeid", value_name = "NODE", env = "KUBE_NODE_NAME")]
    pub node_id: String,

    /// Directory of each filesystem in which volumes are created
    #[arg(
        long,
        value_name = "PATH",
        env = "CSI_DYNAMIC_PATH",
        default_value = "csi-volumes"
    )]
    pub dynamic_path: String,

    /// Directory in which volumes were created before --dynamic-path was changed: they can be deleted; may be given several times
    #[arg(long = "earlier-dynamic-path", value_name = "PATH")]
    pub earlier_dynamic_paths: Vec<String>,

    /// Do not verify the certificates of Weka clusters; for tests only
    #[arg(long = "allowinsecurehttps", default_value = "false")]
    pub allow_insecure_https: bool,

    /// Send every request to another endpoint of the cluster; otherwise one is used until it fails
    #[arg(long = "rotateapiendpointoneachrequest", default_value = "false")]
    pub rotate_endpoints: bool,

    /// How long a call may take, even if its caller would wait longer
    #[arg(
        long = "grpcrequesttimeoutseconds",
        value_name = "SECONDS",
        default_value_t = 30
    )]
    pub grpc_request_timeout_seconds: u64,

    /// How long a Weka cluster may take for one answer
    #[arg(
        long = "wekaapitimeoutseconds",
        value_name = "SECONDS",
        default_value_t = 60
    )]
    pub weka_api_timeout_seconds: u64,

    /// How long the node's Weka client may take to answer a health check
    #[arg(
        long = "healthprobewekatimeoutseconds",
        value_name = "SECONDS",
        default_value_t = 5
    )]
    pub health_probe_timeout_seconds: u64,

    /// How often to ask clusters for their release, to notice upgrades
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub release_refresh_seconds: u64,

    /// How many volumes to create at a time on one cluster
    #[arg(
        long = "concurrency.createVolume",
        value_name = "NUMBER",
        default_value_t = 16
    )]
    pub concurrent_creates: usize,

    /// How many volumes to delete at a time on one cluster
    #[arg(
        long = "concurrency.deleteVolume",
        value_name = "NUMBER",
        default_value_t = 16
    )]
    pub concurrent_deletes: usize,

    /// How many volumes to expand at a time on one cluster
    #[arg(
        long = "concurrency.expandVolume",
        value_name = "NUMBER",
        default_value_t = 16
    )]
    pub concurrent_expansions: usize,

    /// How many volumes to publish at a time from one filesystem
    #[arg(
        long = "concurrency.nodePublishVolume",
        value_name = "NUMBER",
        default_value_t = 16
    )]
    pub concurrent_publications: usize,

    /// How many snapshots to create at a time on one cluster
    #[arg(
        long = "concurrency.createSnapshot",
        value_name = "NUMBER",
        default_value_t = 16
    )]
    pub concurrent_snapshots: usize,

    /// How many snapshots to delete at a time on one cluster
    #[arg(
        long = "concurrency.deleteSnapshot",
        value_name = "NUMBER",
        default_value_t = 16
    )]
    pub concurrent_snapshot_deletions: usize,

    /// How many volumes to unpublish at a time from one filesystem [default: as many as there are]
    #[arg(long = "concurrency.nodeUnpublishVolume", value_name = "NUMBER")]
    pub concurrent_unpublications: Option<usize>,

    /// What volumes may be made.
    #[command(flatten)]
    pub volumes: volumes::VolumeArgs,

    /// Mounts by NFS.
    #[command(flatten)]
    pub nfs: nfs::NfsArgs,

    /// What is reported of all volumes.
    #[command(flatten)]
    pub figures: figures::FigureArgs,

    /// Container of the Weka client to mount through, if a node has several
    #[arg(
        long = "wekafscontainername",
        value_name = "NAME",
        env = "WEKAFS_CONTAINER_NAME"
    )]
    pub container_name: Option<String>,

    /// Leave the data of deleted volumes in the trash directory
    #[arg(long = "skipgarbagecollection", default_value = "false")]
    pub skip_garbage_collection: bool,

    /// Manage the topology labels of the node
    #[arg(long = "managenodetopologylabels", default_value = "false")]
    pub manage_node_topology_labels: bool,

    /// How long the Weka client must be unavailable before those labels are removed
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub node_label_patience_seconds: u64,

    /// How often the Weka client is looked at for that, at least
    #[arg(
        long,
        value_name = "MILLISECONDS",
        default_value_t = 10_000,
        hide = true
    )]
    pub node_label_look_milliseconds: u64,

    /// Let claims and pods change mount options by annotation
    #[arg(long = "allowmountoptionoverrides", default_value = "false")]
    pub allow_mount_option_overrides: bool,

    /// Label mounts for SELinux, on nodes that have it
    #[arg(long = "selinux-support", default_value = "false")]
    pub selinux_support: bool,

    /// Mount options that exclude each other, separated by commas; may be given several times
    #[arg(long = "mutuallyexclusivemountoptions", value_name = "OPTIONS", default_values = DEFAULT_EXCLUSIVE)]
    pub mutually_exclusive_mount_options: Vec<String>,

    /// Mount options to accept in addition to those known for wekafs
    #[arg(
        long = "allowedmountoptions",
        value_name = "OPTIONS",
        value_delimiter = ','
    )]
    pub allowed_mount_options: Vec<String>,

    /// Name of the secret for requests without one; if unset, such requests do not use the API
    #[arg(long = "legacyvolumesecretname", value_name = "NAME")]
    pub legacy_volume_secret_name: Option<String>,

    /// Where that secret is mounted
    #[arg(long, value_name = "DIR", default_value = "/legacy-volume-access")]
    pub legacy_volume_access: PathBuf,

    /// Where to mount filesystems for the driver's own use [default: /run/weka-fs-mounts, followed by the mode]
    #[arg(long, value_name = "DIR")]
    pub mount_base: Option<PathBuf>,

    /// Where the kernel shows the client.
    #[command(flatten)]
    pub client_files: ClientFiles,

    /// The kernel's list of filesystems
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/proc/filesystems",
        hide = true
    )]
    pub proc_filesystems: PathBuf,

    /// Access to Kubernetes, for labels and annotations only.
    #[command(flatten)]
    pub kube: stowage_service::KubeArgs,

    /// Flags for what this driver does not do.
    #[command(flatten)]
    pub foreign: foreign::ForeignFlags,
}
