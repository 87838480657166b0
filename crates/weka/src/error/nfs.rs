//! Why a filesystem cannot be mounted by NFS.

use std::net::IpAddr;

use stowage_host::mount::MountError;

/// Why a filesystem cannot be mounted by NFS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NfsError {
    #[error(
        "NFS serves filesystems of the organization Root only, and the secret is of `{0}`: run a Weka client on the node"
    )]
    Organization(String),
    #[error(
        "Weka cluster `{cluster}` has no NFS interface group{} with addresses: create one there, or list addresses in the secret as `nfsTargetIps`",
        group.as_ref().map(|group| format!(" `{group}` (--interfacegroupname)")).unwrap_or_default()
    )]
    NoInterfaceGroup {
        cluster: String,
        group: Option<String>,
    },
    #[error(
        "this node has no route to {0}, where the Weka cluster serves NFS: connect the node, or list other addresses in the secret as `nfsTargetIps`"
    )]
    NoRoute(IpAddr),
    #[error(
        "server {server} of the Weka cluster refuses to let this node ({}) mount filesystem `{filesystem}` by NFS, although client group `{group}` has permission: the node's requests come from an address that no rule of the group has; add a rule for it to the group on the Weka cluster, or, if the driver's pods have a network of their own, give them that of the node (`hostNetwork: true`)",
        address.map_or_else(|| "its address is not known".to_owned(), |address| address.to_string())
    )]
    Denied {
        filesystem: String,
        group: String,
        server: IpAddr,
        /// As the node knows itself.
        address: Option<IpAddr>,
        #[source]
        source: Box<MountError>,
    },
    #[error(
        "NFS client group `{group}` may not read and write all of filesystem `{filesystem}` without squashing, over {version}: change its permission on the Weka cluster, or delete it, and the driver makes a new one"
    )]
    Permission {
        filesystem: String,
        group: String,
        version: &'static str,
    },
}
