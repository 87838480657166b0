//! The command line as it is typed; variables have the names that Zadara's chart sets.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use stowage_csi::flags::{DriverArgs, switch};
use stowage_host::filesystem::FsKind;
use stowage_service::duration;

use crate::vsc::allocator::Allocator;

/// Flags of `stowage driver vpsa`.
#[derive(clap::Args, Clone, Debug)]
#[command(
    mut_arg("driver_name", |arg| arg.env("CSI_DRIVER_NAME").default_value("csi.zadara.com").required(false)),
    mut_arg("import_existing", switch),
    mut_arg("empty_recycle_bin", switch),
)]
pub struct Args {
    /// What every driver has.
    #[command(flatten)]
    pub driver: DriverArgs,

    /// Name of this node in Kubernetes
    #[arg(long = "nodeid", value_name = "NODE", env = "CSI_NODE_NAME")]
    pub node_id: String,

    /// Address of this node in the storage network
    #[arg(long, value_name = "IP", env = "CSI_NODE_IP", help_heading = "Node")]
    pub node_ip: Option<IpAddr>,

    /// Storage network, such as 10.1.0.0/16: arrays know the node by its own address in it
    #[arg(
        long,
        value_name = "CIDR",
        env = "CSI_STORAGE_NETWORK",
        help_heading = "Node"
    )]
    pub storage_network: Option<String>,

    /// Filesystem of disks for which a storage class names none: ext4 or xfs
    #[arg(
        long = "default-fstype",
        value_name = "NAME",
        default_value = "ext4",
        help_heading = "Node"
    )]
    pub default_fs_type: FsKind,

    /// Process of the host, as this one sees it: `iscsiadm` and `mount` of NFS run with its files and network, as do the
    /// files of open-iscsi. In a pod with hostPID it is 1 [default: everything is where this process is]
    #[arg(long, value_name = "PID", help_heading = "Node")]
    pub host_process: Option<u32>,

    /// File with the name of the node's iSCSI initiator
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/iscsi/initiatorname.iscsi",
        help_heading = "Node"
    )]
    pub initiator_name: PathBuf,

    /// Directory in which open-iscsi keeps its records of targets
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/etc/iscsi/nodes",
        help_heading = "Node"
    )]
    pub iscsi_records: PathBuf,

    /// Directory of the links to disks
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/dev/disk/by-path",
        hide = true
    )]
    pub by_path: PathBuf,

    /// Directory where the kernel shows what it has
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    pub sysfs: PathBuf,

    /// Directory of the links to disks with several paths
    #[arg(long, value_name = "DIR", default_value = "/dev/mapper", hide = true)]
    pub mapper: PathBuf,

    /// Labels of nodes that say where they are, such as topology.kubernetes.io/zone, separated by commas: volumes are then
    /// only on VPSAs that are reached from where they are needed. The same for controller and nodes [default: no topology]
    #[arg(long, value_name = "LABEL,...", value_delimiter = ',')]
    pub topology_keys: Vec<String>,

    /// Directory with the keys: GLOBAL_ENCRYPTION_KEY for access keys of arrays, CHAP_ENCRYPTION_KEY for logins; further
    /// files whose names begin so are older keys
    #[arg(long, value_name = "DIR", default_value = "/etc/stowage/keys")]
    pub keys: PathBuf,

    /// How the VPSA of a new volume is chosen
    #[arg(
        long,
        value_enum,
        default_value_t,
        env = "VSC_VOLUME_ALLOCATOR",
        help_heading = "Controller"
    )]
    pub allocator: Allocator,

    /// How often each VPSA is looked at
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = duration::parse,
        env = "VSC_MONITOR_INTERVAL", help_heading = "Controller")]
    pub monitor_interval: Duration,

    /// How long a VPSA may take for one volume
    #[arg(long, value_name = "DURATION", default_value = "3m0s", value_parser = duration::parse,
        env = "VSC_VPSA_REQUEST_TIMEOUT", help_heading = "Controller")]
    pub request_timeout: Duration,

    /// How often it is looked at what is on each VPSA, and imported
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse, help_heading = "Controller")]
    pub refresh_period: Duration,

    /// Import volumes and snapshots that are on VPSAs already, as records that delete nothing there
    #[arg(long, default_value = "true", help_heading = "Controller")]
    pub import_existing: bool,

    /// Remove deleted volumes from the recycle bins of VPSAs at once: nobody can restore them any more, and their room is free
    #[arg(long, default_value = "false", help_heading = "Controller")]
    pub empty_recycle_bin: bool,

    /// How long a node may not be ready before it is fenced on the VPSAs and its pods with volumes of this driver are deleted,
    /// so that they start elsewhere; 0 is never
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse, help_heading = "Controller")]
    pub node_loss_timeout: Duration,

    /// Election of the controller that talks to VPSAs.
    #[command(flatten)]
    pub lease: stowage_service::LeaseArgs,

    /// Access to Kubernetes.
    #[command(flatten)]
    pub kube: stowage_service::KubeArgs,
}
