//! The array itself: controllers, pools, drives.

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use stowage_api::vpsa::CapacityMode;
use stowage_rest::lenient;

use super::super::id::PoolId;
use super::server::secret;

/// A controller.
#[derive(Clone, Debug, Deserialize)]
pub struct VController {
    /// Its identity.
    #[serde(default, deserialize_with = "lenient::text")]
    pub name: String,
    /// `active`, or `standby`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub state: String,
    /// The name of its iSCSI target.
    #[serde(default, deserialize_with = "lenient::text")]
    pub target: String,
    /// Its address for data, or empty.
    #[serde(default, deserialize_with = "lenient::text")]
    pub iscsi_ip: String,
    /// Its IPv6 address for data, or empty.
    #[serde(default, deserialize_with = "lenient::text")]
    pub iscsi_ipv6: String,
    /// The version it runs.
    #[serde(default, deserialize_with = "lenient::text")]
    pub software_ver: String,
    /// User of logins, unless a Server record has its own.
    #[serde(default, deserialize_with = "lenient::text")]
    pub vpsa_chap_user: String,
    /// Secret of logins, unless a Server record has its own.
    #[serde(default, deserialize_with = "secret")]
    pub vpsa_chap_secret: SecretString,
}

impl VController {
    /// Whether it is the one that works.
    pub fn is_active(&self) -> bool {
        self.state.eq_ignore_ascii_case("active")
    }

    /// The address for data: the IPv6 one if there is one.
    pub fn data_address(&self) -> Option<&str> {
        [&self.iscsi_ipv6, &self.iscsi_ip]
            .into_iter()
            .map(|address| address.trim())
            .find(|address| !address.is_empty())
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Pool {
    /// Its identity.
    #[serde(rename = "name")]
    pub id: PoolId,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::text")]
    pub display_name: String,
    /// How much it holds, in GB.
    #[serde(default, deserialize_with = "lenient::fraction")]
    pub capacity: f64,
    /// How much is free, in GB.
    #[serde(default, deserialize_with = "lenient::fraction")]
    pub available_capacity: f64,
    /// The sum of its volumes, in GB.
    #[serde(default, deserialize_with = "lenient::fraction")]
    pub provisioned_capacity: f64,
    /// In the array's words.
    #[serde(default, deserialize_with = "lenient::text")]
    pub status: String,
    /// Everything else: where the array says how full it is, is not public.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Where versions may say how full a pool is; the first that has one of the words counts.
const MODE_FIELDS: [&str; 4] = ["mode", "capacity_mode", "capacity_state", "protection_mode"];

impl Pool {
    /// How full it is, in the array's own judgement; a pool without any room is at least protected.
    pub fn capacity_mode(&self) -> CapacityMode {
        let mut said = MODE_FIELDS
            .iter()
            .filter_map(|field| self.rest.get(*field)?.as_str())
            .chain([self.status.as_str()]);
        let told = said.find_map(mode).unwrap_or_default();
        if self.capacity > 0.0 && self.available_capacity < 1.0 {
            return told.max(CapacityMode::Protected);
        }
        told
    }

    /// Whether it works.
    pub fn health(&self) -> Health {
        // A pool that is full says so in its status, and works.
        match mode(&self.status) {
            Some(_) => Health::Healthy,
            None => Health::of(&self.status),
        }
    }
}

/// One of the words, if it is in the text.
fn mode(text: &str) -> Option<CapacityMode> {
    let text = text.to_ascii_lowercase();
    let words = CapacityMode::WORDS.iter();
    words
        .rev()
        .find(|word| text.contains(**word))
        .map(|word| CapacityMode::from(*word))
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Drive {
    /// Its identity.
    #[serde(default, deserialize_with = "lenient::text")]
    pub name: String,
    /// In the array's words.
    #[serde(default, deserialize_with = "lenient::text")]
    pub status: String,
}

/// A RAID group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RaidGroup {
    /// Its identity.
    #[serde(default, deserialize_with = "lenient::text")]
    pub name: String,
    /// In the array's words.
    #[serde(default, deserialize_with = "lenient::text")]
    pub status: String,
}

impl Drive {
    /// Whether it works.
    pub fn health(&self) -> Health {
        Health::of(&self.status)
    }
}

impl RaidGroup {
    /// Whether it works.
    pub fn health(&self) -> Health {
        Health::of(&self.status)
    }
}

/// Whether a part of an array works. Which words the array has for it is not public: these are looked for in its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// As far as is known.
    Healthy,
    /// It works, with less protection than it should have.
    Degraded,
    /// It does not.
    Failed,
}

const FAILED: [&str; 7] = [
    "fail", "fault", "error", "offline", "missing", "dead", "corrupt",
];
const DEGRADED: [&str; 4] = ["degraded", "rebuild", "resync", "partial"];

impl Health {
    fn of(status: &str) -> Self {
        let status = status.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| status.contains(word));
        if says(&FAILED) {
            Self::Failed
        } else if says(&DEGRADED) {
            Self::Degraded
        } else {
            Self::Healthy
        }
    }
}
