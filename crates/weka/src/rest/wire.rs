//! Answers as the array spells them. Only what is used is read; the real ones hold more.
//!
//! What is null is as good as missing, as it is for WEKA's own clients; only what identifies something must be there.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub(crate) use filesystems::{Filesystem, MountToken, Resolved, Thin};
pub(crate) use quotas::{Quota, QuotaStatus};
pub(crate) use snapshots::Snapshot;

mod filesystems;
pub(crate) mod nfs;
mod quotas;
mod snapshots;

/// Around every answer.
#[derive(Deserialize)]
pub(crate) struct Envelope {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) data: Value,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) message: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) next_token: Option<String>,
}

/// `login` and `login/refresh`. No Debug: these are secrets.
#[derive(Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access_token: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) refresh_token: Option<String>,
    /// Seconds.
    #[serde(default, deserialize_with = "number")]
    pub(crate) expires_in: u64,
}

/// `users/whoami`.
#[derive(Deserialize, Debug, Default)]
pub(crate) struct WhoAmI {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) role: Option<String>,
}

/// `cluster`.
#[derive(Deserialize, Debug)]
pub(crate) struct Cluster {
    pub(crate) guid: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) release: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) capacity: ClusterCapacity,
}

/// What a cluster has for filesystems.
#[derive(Deserialize, Debug, Default)]
pub(crate) struct ClusterCapacity {
    #[serde(default, deserialize_with = "number")]
    pub(crate) unprovisioned_bytes: u64,
}

/// `kms`: the key management server, if the cluster has one.
#[derive(Deserialize, Debug, Default)]
pub(crate) struct Kms {
    #[serde(default, deserialize_with = "or_default", rename = "kms_type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) params: KmsParameters,
}

#[derive(Deserialize, Debug, Default)]
pub(crate) struct KmsParameters {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) auth_method: String,
}

/// `processes` or `nodes`.
#[derive(Deserialize, Debug)]
pub(crate) struct Process {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mode: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) roles: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ips: Vec<String>,
    #[serde(default, deserialize_with = "number")]
    pub(crate) mgmt_port: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: String,
}

/// `containers`.
#[derive(Deserialize, Debug)]
pub(crate) struct Container {
    #[serde(default, deserialize_with = "or_default", rename = "container_name")]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default", rename = "container_ip")]
    pub(crate) ip: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) hostname: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mode: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: String,
}

/// What is null is as if it were not there.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
    fn null_is_taken_where_a_value_may_be_missing() {
        let process = json!({ "mode": null, "roles": null, "ips": null, "mgmt_port": null });
        assert!(serde_json::from_value::<Process>(process).is_ok());
        let container = json!({ "container_name": null, "container_ip": null, "hostname": null, "mode": null, "status": null });
        assert!(serde_json::from_value::<Container>(container).is_ok());
        let cluster = json!({ "guid": "g", "name": null, "release": null });
        assert!(serde_json::from_value::<Cluster>(cluster).is_ok());
        let filesystem = json!({
            "uid": "u", "name": "n", "is_removing": null, "is_encrypted": null, "auth_required": null,
            "total_budget": null, "available_total": null,
        });
        assert!(serde_json::from_value::<Filesystem>(filesystem).is_ok());
        let quota = json!({ "inode_id": 7, "status": null, "path": null, "grace_seconds": null });
        let quota: Quota = serde_json::from_value(quota).unwrap();
        assert_eq!(quota.status, QuotaStatus::Unknown);
        let who: WhoAmI = serde_json::from_value(json!({ "role": null })).unwrap();
        assert_eq!(who.role, None);
        let envelope = json!({ "data": null, "message": null, "next_token": null });
        assert!(serde_json::from_value::<Envelope>(envelope).is_ok());
        // Nothing can be done with what has no identity.
        for nobody in [
            json!({ "uid": null, "name": "n" }),
            json!({ "uid": "u", "name": null }),
        ] {
            assert!(serde_json::from_value::<Filesystem>(nobody).is_err());
        }
    }

    #[test]
    fn a_status_nobody_has_seen_is_no_error() {
        let status = |text: &str| serde_json::from_value::<QuotaStatus>(json!(text)).unwrap();
        assert_eq!(status("ACTIVE"), QuotaStatus::Active);
        assert_eq!(status("ADDING"), QuotaStatus::Adding);
        assert_eq!(status("PONDERING"), QuotaStatus::Unknown);
    }
}
