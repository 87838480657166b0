//! Answers as the array spells them. Only what is used is read; the real ones hold more.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::quota::Limits;

/// Around every answer.
#[derive(Deserialize)]
pub(crate) struct Envelope {
    #[serde(default)]
    pub(crate) data: Value,
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) next_token: Option<String>,
}

/// `login` and `login/refresh`. No Debug: these are secrets.
#[derive(Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access_token: String,
    #[serde(default)]
    pub(crate) refresh_token: Option<String>,
    /// Seconds.
    #[serde(default, deserialize_with = "number")]
    pub(crate) expires_in: u64,
}

/// `users/whoami`.
#[derive(Deserialize, Debug, Default)]
pub(crate) struct WhoAmI {
    #[serde(default)]
    pub(crate) role: Option<String>,
}

/// `cluster`.
#[derive(Deserialize, Debug)]
pub(crate) struct Cluster {
    pub(crate) guid: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) release: String,
}

/// `processes` or `nodes`.
#[derive(Deserialize, Debug)]
pub(crate) struct Process {
    #[serde(default)]
    pub(crate) mode: String,
    #[serde(default)]
    pub(crate) roles: Vec<String>,
    #[serde(default)]
    pub(crate) ips: Vec<String>,
    #[serde(default, deserialize_with = "number")]
    pub(crate) mgmt_port: u64,
}

/// `containers`.
#[derive(Deserialize, Debug)]
pub(crate) struct Container {
    #[serde(default, rename = "container_name")]
    pub(crate) name: String,
    #[serde(default, rename = "container_ip")]
    pub(crate) ip: String,
    #[serde(default)]
    pub(crate) hostname: String,
    #[serde(default)]
    pub(crate) mode: String,
    #[serde(default)]
    pub(crate) status: String,
}

/// `fileSystems`.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct Filesystem {
    pub(crate) uid: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) is_removing: bool,
    #[serde(default)]
    pub(crate) is_encrypted: bool,
    #[serde(default)]
    pub(crate) auth_required: bool,
    #[serde(default, deserialize_with = "number")]
    pub(crate) total_budget: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) available_total: u64,
}

/// `fileSystems/{uid}/mountToken`. No Debug: it is a secret.
#[derive(Deserialize)]
pub(crate) struct MountToken {
    pub(crate) mount_token: String,
    #[serde(default)]
    pub(crate) filesystem_name: Option<String>,
}

/// `fileSystems/{uid}/resolvePath`.
#[derive(Deserialize, Debug)]
pub(crate) struct Resolved {
    #[serde(deserialize_with = "number")]
    pub(crate) inode_id: u64,
}

/// How far a quota has come.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum QuotaStatus {
    Active,
    Adding,
    Error,
    Deleting,
    #[serde(other)]
    Unknown,
}

/// `fileSystems/{uid}/quota[/{inode}]`.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct Quota {
    #[serde(default, deserialize_with = "number")]
    pub(crate) inode_id: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) hard_limit_bytes: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) soft_limit_bytes: u64,
    pub(crate) status: QuotaStatus,
    /// In lists only.
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) full_path: Option<String>,
}

impl Quota {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            hard_bytes: self.hard_limit_bytes,
            soft_bytes: self.soft_limit_bytes,
        }
    }
}

/// A number that some releases write as text, and null where there is none.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
        Fraction(f64),
        Null(()),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => text.trim().parse().map_err(serde::de::Error::custom),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Written::Fraction(number) => Ok(number.max(0.0) as u64),
        Written::Null(()) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_in_every_spelling() {
        let read = |value: Value| {
            serde_json::from_value::<Resolved>(json!({ "inode_id": value }))
                .map(|resolved| resolved.inode_id)
                .ok()
        };
        assert_eq!(read(json!("281474976710656")), Some(281_474_976_710_656));
        assert_eq!(read(json!(7)), Some(7));
        assert_eq!(read(json!(null)), Some(0));
        assert_eq!(read(json!("seven")), None);
    }

    #[test]
    fn a_status_nobody_has_seen_is_no_error() {
        let status = |text: &str| serde_json::from_value::<QuotaStatus>(json!(text)).unwrap();
        assert_eq!(status("ACTIVE"), QuotaStatus::Active);
        assert_eq!(status("ADDING"), QuotaStatus::Adding);
        assert_eq!(status("PONDERING"), QuotaStatus::Unknown);
    }
}
