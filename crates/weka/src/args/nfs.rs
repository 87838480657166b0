//! Flags about mounts by NFS.

use stowage_csi::flags::switch;

/// Mounts by NFS.
#[derive(clap::Args, Clone, Debug)]
// Each is a switch of its own.
#[allow(clippy::duplicated_attributes)]
#[command(mut_arg("use_nfs", switch), mut_arg("allow_nfs_failback", switch))]
pub struct NfsArgs {
    /// Mount by NFS, also where a Weka client runs
    #[arg(long = "usenfs", default_value = "false")]
    pub use_nfs: bool,

    /// Mount by NFS for as long as the node has no working Weka client for the cluster
    #[arg(long = "allownfsfailback", default_value = "false")]
    pub allow_nfs_failback: bool,

    /// NFS interface group of the cluster to mount from [default: the first one with addresses]
    #[arg(long = "interfacegroupname", value_name = "NAME")]
    pub interface_group: Option<String>,

    /// NFS client group of the cluster that nodes are put into, unless one of its networks has them
    #[arg(
        long = "clientgroupname",
        value_name = "NAME",
        default_value = "WekaCSIPluginClients"
    )]
    pub client_group: String,

    /// Version of NFS
    #[arg(
        id = "nfs_version",
        long = "nfsprotocolversion",
        value_name = "VERSION",
        default_value = "4.1"
    )]
    pub protocol_version: String,

    /// Address of this node, if the route to the cluster does not show it
    #[arg(
        long = "node-ip",
        value_name = "IP",
        env = "KUBE_NODE_IP_ADDRESS",
        hide = true
    )]
    pub node_ip: Option<std::net::IpAddr>,
}
