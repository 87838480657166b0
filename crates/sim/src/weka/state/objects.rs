//! The objects of a cluster.

use serde::{Deserialize, Serialize};

use super::Millis;
use super::access::Role;
use super::tokens::Purpose;
use crate::weka::release::Release;

/// The cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub guid: String,
    /// The version it runs.
    pub release: Release,
    /// Bytes it has for filesystems.
    pub total_bytes: u64,
    /// Groups that filesystems may be in.
    pub filesystem_groups: Vec<String>,
    /// The number that the next object gets.
    pub next_number: u64,
}

/// An organization: a tenant with users and filesystems of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Organization {
    /// Its number; Root is 0.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// Somebody who can log in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// Identity.
    pub uid: String,
    /// Name, unique in its organization.
    pub username: String,
    /// Password, in clear text: nothing here is secret.
    pub password: String,
    /// Organization.
    pub org_id: u32,
    /// What it may do.
    pub role: Role,
}

/// Something a client shows instead of a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// The text itself.
    pub text: String,
    /// What it is good for.
    pub purpose: Purpose,
    /// Who got it.
    pub user: String,
    /// When it stops to be valid.
    pub expires_at: Millis,
}

/// A filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Identity.
    pub uid: String,
    /// Number, shown as `FSId: <number>`.
    pub number: u64,
    /// Name, unique in its organization.
    pub name: String,
    /// Group.
    pub group_name: String,
    /// Organization.
    pub org_id: u32,
    /// Bytes it may hold.
    pub total_budget: u64,
    /// Thin provisioning: least and most bytes on drives.
    pub thin: Option<Thin>,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Own key in the key management server.
    pub kms_key_identifier: Option<String>,
    /// Namespace of that key.
    pub kms_namespace: Option<String>,
    /// Whether a mount must show a token.
    pub auth_required: bool,
    /// When it is created.
    pub ready_at: Millis,
    /// When it is gone, once somebody removed it.
    pub removed_at: Option<Millis>,
}

/// Drives of a thinly provisioned filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thin {
    /// Least bytes.
    pub min: u64,
    /// Most bytes.
    pub max: u64,
}

/// A limit of a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// The filesystem it is on.
    pub filesystem: String,
    /// The directory.
    pub inode: u64,
    /// Number, shown as `QuotaId: <number>`.
    pub number: u64,
    /// No more than these bytes.
    pub hard_limit_bytes: u64,
    /// More than these bytes raise an alert.
    pub soft_limit_bytes: u64,
    /// How long the soft limit may be exceeded; 0 means forever.
    pub grace_seconds: u64,
    /// The snapshot that the directory is in.
    pub snapshot: Option<String>,
    /// When it takes effect; none: never, it ended in status ERROR.
    pub active_at: Option<Millis>,
    /// When it is gone, once somebody removed it.
    pub removed_at: Option<Millis>,
}

/// A copy of a filesystem at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Identity.
    pub uid: String,
    /// Number, shown as `SnapshotId: <number>`.
    pub number: u64,
    /// Name, unique on its filesystem.
    pub name: String,
    /// Directory under `.snapshots`, unique on its filesystem.
    pub access_point: String,
    /// The filesystem.
    pub filesystem: String,
    /// The snapshot it was made from, if not from the filesystem itself.
    pub source: Option<String>,
    /// Whether it can be written.
    pub writable: bool,
    /// When it was made.
    pub created_at: Millis,
    /// When it is gone, once somebody removed it.
    pub removed_at: Option<Millis>,
}

/// A Weka container on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Its name, unique on its host.
    pub container_name: String,
    /// Its host.
    pub hostname: String,
    /// Its address.
    pub container_ip: String,
    /// `client` or `backend`.
    pub mode: String,
    /// `ACTIVE` or `INACTIVE`.
    pub state: String,
    /// `UP` or `DOWN`.
    pub status: String,
    /// Cores for its frontends.
    pub frontend_dedicated_cores: u32,
}

/// A process of a container; called node before 4.2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Identity.
    pub uid: String,
    /// Its host.
    pub hostname: String,
    /// `client` or `backend`.
    pub mode: String,
    /// `COMPUTE`, `FRONTEND`, `DRIVES`, `MANAGEMENT`, `DATASERV`.
    pub roles: Vec<String>,
    /// Addresses.
    pub ips: Vec<String>,
    /// Port of the REST API.
    pub mgmt_port: u16,
    /// `UP` or `DOWN`.
    pub status: String,
}

/// The key management server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kms {
    /// `Local`, `HashiCorpVault` or `KMIP`.
    pub kms_type: String,
    /// `master_key_name`, `base_url`, `auth_method`.
    pub params: serde_json::Map<String, serde_json::Value>,
}

/// Addresses that serve NFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceGroup {
    /// Identity.
    pub uid: String,
    /// Name.
    pub name: String,
    /// `NFS` or `SMB`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Addresses.
    pub ips: Vec<String>,
    /// `OK`.
    pub status: String,
    /// Gateway.
    pub gateway: String,
    /// Mask of the network.
    pub subnet_mask: String,
}

/// Clients that NFS permissions are granted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientGroup {
    /// Identity.
    pub uid: String,
    /// Name, unique.
    pub name: String,
    /// Who is in it.
    pub rules: Vec<ClientRule>,
}

/// Who is in a client group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRule {
    /// Identity.
    pub uid: String,
    /// Number.
    pub id: String,
    /// `IP` or `DNS`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Network or host name.
    pub rule: String,
}

/// What a client group may do with a filesystem over NFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsPermission {
    /// Identity.
    pub uid: String,
    /// Name of the filesystem.
    pub filesystem: String,
    /// Name of the client group.
    pub group: String,
    /// Path on the filesystem.
    pub path: String,
    /// `RW` or `RO`.
    pub permission_type: String,
    /// `none`, `root` or `all`.
    pub squash_mode: String,
    /// Whom squashed users become.
    pub anon_uid: String,
    /// Group of squashed users.
    pub anon_gid: String,
    /// `V3`, `V4`.
    pub supported_versions: Vec<String>,
    /// Order among permissions.
    pub priority: u32,
}

macro_rules! keys {
    ($($type:ident: $self:ident => $key:expr),* $(,)?) => {
        $(impl $type {
            /// What it is stored under.
            pub fn key(&$self) -> String {
                $key
            }
        })*
    };
}

keys! {
    Cluster: self => "cluster".to_owned(),
    Organization: self => self.id.to_string(),
    User: self => self.uid.clone(),
    Token: self => self.text.clone(),
    Filesystem: self => self.uid.clone(),
    Quota: self => quota_key(&self.filesystem, self.inode),
    Snapshot: self => self.uid.clone(),
    Container: self => format!("{}/{}", self.hostname, self.container_name),
    Process: self => self.uid.clone(),
    Kms: self => "kms".to_owned(),
    InterfaceGroup: self => self.uid.clone(),
    ClientGroup: self => self.uid.clone(),
    NfsPermission: self => self.uid.clone(),
}

/// What the quota of a directory is stored under.
pub fn quota_key(filesystem: &str, inode: u64) -> String {
    format!("{filesystem}/{inode}")
}
