//! Server records: hosts that volumes are attached to.

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use stowage_rest::lenient;

use super::super::id::ServerId;

/// A Server record.
#[derive(Clone, Debug, Deserialize)]
pub struct Server {
    /// Its identity.
    #[serde(rename = "name")]
    pub id: ServerId,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::text")]
    pub display_name: String,
    /// The host's name among iSCSI initiators, or empty.
    #[serde(default, deserialize_with = "lenient::text")]
    pub iqn: String,
    /// The host's address, or network in CIDR form, or empty.
    #[serde(default, deserialize_with = "lenient::text")]
    pub iscsi_ip: String,
    /// User of the host's logins.
    #[serde(default, deserialize_with = "lenient::text")]
    pub vpsa_chap_user: String,
    /// Secret of the host's logins.
    #[serde(default, deserialize_with = "secret")]
    pub vpsa_chap_secret: SecretString,
    /// In the array's words, such as `Active`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub status: String,
}

/// A Server record in the list of those that a volume is attached to.
#[derive(Clone, Debug, Deserialize)]
pub struct AttachedServer {
    /// The record itself.
    #[serde(flatten)]
    pub server: Server,
    /// The iSCSI target to log in to; empty for a share, and as long as the array is at it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub target: String,
    /// The number of the disk for this host; none for a share, and as long as the array is at it.
    #[serde(default, deserialize_with = "lenient::optional_number")]
    pub lun: Option<u64>,
    /// Whether the host may only read.
    #[serde(default, deserialize_with = "lenient::switch")]
    pub read_only: bool,
    /// `NFS`, `SMB`, `iSCSI`, or what the array says instead.
    #[serde(default, deserialize_with = "lenient::text")]
    pub access_type: String,
}

impl AttachedServer {
    /// Target and number of the disk, once the host can log in.
    pub fn disk(&self) -> Option<(&str, u64)> {
        let target = Some(self.target.as_str()).filter(|it| !it.is_empty());
        target.zip(self.lun)
    }
}

/// A text that is a secret.
pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    Ok(lenient::text(from)?.into())
}
