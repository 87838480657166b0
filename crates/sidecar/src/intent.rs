//! One volume to be made, fixed at the first attempt.
//!
//! The same call is made again until the driver gives a final answer, also after a restart, also when the claim, its
//! class or half of the nodes are gone by then. So everything that the call and the volume's object are made of is
//! in here, and nothing of it is looked up again but the secrets' content.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::SecretReference;
use serde::{Deserialize, Serialize};

use crate::cluster::volume::ClaimKey;

/// A volume to be made for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// The claim; its uid is what the intent is found by.
    pub claim: ClaimKey,
    /// The name of the volume, for the driver and for Kubernetes.
    pub volume: String,
    /// The size to ask for.
    pub bytes: i64,
    /// As the claim has them, for the volume's object.
    pub access_modes: Vec<String>,
    /// The same in the numbers of CSI, for the driver: they depend on what it could do at the time.
    pub csi_modes: Vec<i32>,
    /// A raw device rather than a filesystem.
    pub block: bool,
    /// Attach it read-only.
    pub read_only: bool,
    /// What to fill it with.
    pub source: Option<Source>,
    /// Where it may be.
    pub topology: Option<FrozenTopology>,
    /// What its class said.
    pub class: Arc<ClassFacts>,
    /// The VolumeAttributesClass of the claim.
    pub attributes: Option<AttributesClass>,
    /// The secrets of its whole life, by reference.
    pub secrets: Secrets,
}

/// When and where an intent was written down. Whatever deletes a volume asks for it: names and claims say nothing about
/// what became of the volume since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// In seconds since 1970.
    pub written: u64,
    /// The uid of the namespace `kube-system`; none where it cannot be read.
    pub cluster: Option<String>,
}

impl Origin {
    /// Now, in this cluster.
    pub fn here(cluster: Option<String>) -> Self {
        Self {
            written: seconds(SystemTime::now()),
            cluster,
        }
    }
}

/// Since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// What a volume's content is copied from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The driver's id of a snapshot.
    Snapshot(String),
    /// The driver's id of a volume.
    Volume(String),
}

/// A part of the cluster that the driver tells apart from others, such as a zone: keys and values.
pub type Segment = BTreeMap<String, String>;

/// Where a volume may be and where it should be. Many intents share one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenTopology {
    /// All segments that will do, in order.
    pub segments: Arc<[Segment]>,
    /// The one to prefer; the others follow in a ring.
    pub first: usize,
}

/// A class as it was at the first attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassFacts {
    /// Its name.
    pub name: String,
    /// Its uid: a class that is deleted and made again is another one.
    pub uid: String,
    /// What the driver gets of its parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The filesystem to make; empty leaves it to the driver.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
    /// Options of the mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
    /// What becomes of the volume when the claim is gone.
    pub reclaim_policy: String,
    /// Tell the driver the names of claim and volume.
    pub extra_metadata: bool,
}

/// A VolumeAttributesClass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttributesClass {
    /// Its name.
    pub name: String,
    /// What the driver gets.
    pub parameters: BTreeMap<String, String>,
}

/// References to secrets. Their content is read for each call and kept nowhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Secrets {
    /// For CreateVolume and DeleteVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioner: Option<SecretReference>,
    /// For ControllerPublishVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_publish: Option<SecretReference>,
    /// For NodeStageVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_stage: Option<SecretReference>,
    /// For NodePublishVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_publish: Option<SecretReference>,
    /// For ControllerExpandVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_expand: Option<SecretReference>,
    /// For NodeExpandVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_expand: Option<SecretReference>,
    /// For ControllerModifyVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_modify: Option<SecretReference>,
}
