//! Mounts by NFS.

use std::net::IpAddr;

use super::FlagError;
use crate::args::nfs::NfsArgs;
use crate::nfs::NfsVersion;

const DEFAULT_CLIENT_GROUP: &str = "WekaCSIPluginClients";

/// How and when filesystems are mounted by NFS.
#[derive(Clone, Debug)]
pub(crate) struct NfsRules {
    /// Also where a Weka client runs.
    pub(crate) always: bool,
    /// Where none does.
    pub(crate) as_failback: bool,
    pub(crate) interface_group: Option<String>,
    pub(crate) client_group: String,
    pub(crate) version: NfsVersion,
    pub(crate) node_ip: Option<IpAddr>,
}

impl NfsRules {
    /// Nothing is mounted by NFS.
    pub(crate) fn never() -> Self {
        Self {
            always: false,
            as_failback: false,
            interface_group: None,
            client_group: DEFAULT_CLIENT_GROUP.to_owned(),
            version: NfsVersion::V4_1,
            node_ip: None,
        }
    }

    /// Whether anything may be mounted by NFS.
    pub(crate) fn is_possible(&self) -> bool {
        self.always || self.as_failback
    }
}

impl TryFrom<NfsArgs> for NfsRules {
    type Error = FlagError;

    fn try_from(args: NfsArgs) -> Result<Self, FlagError> {
        let named = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Self {
            always: args.use_nfs,
            as_failback: args.allow_nfs_failback,
            interface_group: args.interface_group.and_then(named),
            client_group: named(args.client_group)
                .unwrap_or_else(|| DEFAULT_CLIENT_GROUP.to_owned()),
            version: args.protocol_version.parse()?,
            node_ip: args.node_ip,
        })
    }
}
