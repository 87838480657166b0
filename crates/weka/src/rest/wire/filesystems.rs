//! Filesystems.

use serde::Deserialize;

use super::{number, or_default};

/// `fileSystems`.
// Each is a field of the API.
#[allow(clippy::struct_excessive_bools)]
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct Filesystem {
    pub(crate) uid: String,
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    is_creating: bool,
    /// Some releases do not say.
    #[serde(default, deserialize_with = "or_default")]
    is_ready: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) is_removing: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) is_encrypted: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) auth_required: bool,
    #[serde(default, deserialize_with = "number")]
    pub(crate) total_budget: u64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) available_total: u64,
    #[serde(default, deserialize_with = "or_default")]
    is_thinly_provisioned: bool,
    #[serde(default, deserialize_with = "number")]
    thin_provisioning_min_ssd: u64,
    #[serde(default, deserialize_with = "number")]
    thin_provisioning_max_ssd: u64,
}

/// How much of a thinly provisioned filesystem is on drives, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thin {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Filesystem {
    /// Whether it can be used: a new one takes a moment.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_creating && !self.is_removing && self.is_ready != Some(false)
    }

    pub(crate) fn thin(&self) -> Option<Thin> {
        self.is_thinly_provisioned.then_some(Thin {
            min: self.thin_provisioning_min_ssd,
            max: self.thin_provisioning_max_ssd,
        })
    }
}

/// `fileSystems/{uid}/mountToken`. No Debug: it is a secret.
#[derive(Deserialize)]
pub(crate) struct MountToken {
    pub(crate) mount_token: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) filesystem_name: Option<String>,
}

/// `fileSystems/{uid}/resolvePath`.
#[derive(Deserialize, Debug)]
pub(crate) struct Resolved {
    #[serde(deserialize_with = "number")]
    pub(crate) inode_id: u64,
}
