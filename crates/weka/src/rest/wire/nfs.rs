//! What clusters know of NFS.

use serde::Deserialize;

use super::or_default;

/// `interfaceGroups`.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct InterfaceGroup {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default", rename = "type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ips: Vec<String>,
}

/// `nfs/clientGroups`.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct ClientGroup {
    pub(crate) uid: String,
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) rules: Vec<ClientRule>,
}

/// Who is in a client group.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct ClientRule {
    #[serde(default, deserialize_with = "or_default", rename = "type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) rule: String,
}

/// `nfs/permissions`.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct NfsPermission {
    pub(crate) uid: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) filesystem: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) group: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) path: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) permission_type: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) squash_mode: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) supported_versions: Vec<String>,
}
