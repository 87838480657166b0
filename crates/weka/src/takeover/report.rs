//! What a check says.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// What a check says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The driver.
    pub driver: String,
    /// Whether nothing stands in the way.
    pub clear: bool,
    /// The instance that is to run the driver.
    pub instance: Instance,
    /// What stands in the way, beside what single objects need.
    pub needs: Vec<String>,
    /// What one should know.
    pub remarks: Vec<String>,
    /// PersistentVolumes.
    pub volumes: Vec<Checked>,
    /// StorageClasses.
    pub classes: Vec<Checked>,
    /// VolumeSnapshotClasses.
    pub snapshot_classes: Vec<Checked>,
    /// VolumeSnapshotContents.
    pub snapshots: Vec<Checked>,
    /// What runs the plugin.
    pub workloads: Vec<PluginWorkload>,
    /// What is to be typed, in this order.
    pub steps: Vec<Step>,
    /// The objects that take the plugin's place.
    pub manifest: Vec<Value>,
}

impl Report {
    /// Decides whether anything stands in the way.
    pub(super) fn settle(&mut self) {
        let lists = [
            &self.volumes,
            &self.classes,
            &self.snapshot_classes,
            &self.snapshots,
        ];
        let needs = lists.into_iter().flatten().any(|it| !it.works());
        self.clear = self.needs.is_empty() && !needs;
    }
}

/// Namespace and name of a CSIDriverDeployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for Instance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Instance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !name.is_empty() && name.len() <= 63 && name.chars().all(plain)
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err("write NAMESPACE/NAME of a CSIDriverDeployment".to_owned()),
        }
    }
}

/// One object of the driver.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The claim or snapshot that uses it, with its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
    /// Its handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What it is on the array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// What must be done before it works.
    pub needs: Vec<String>,
    /// What one should know.
    pub remarks: Vec<String>,
}

impl Checked {
    /// Whether it needs nothing.
    pub fn works(&self) -> bool {
        self.needs.is_empty()
    }
}

/// A workload that runs the plugin.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginWorkload {
    /// Such as `DaemonSet`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `controller`, `node`, `all` or `metricsserver`.
    pub mode: String,
    /// Flags that carry over.
    pub flags: Vec<String>,
    /// Flags that do not, and why.
    pub left_out: Vec<LeftOut>,
}

/// A flag that does not carry over.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// As it was given.
    pub flag: String,
    /// Why.
    pub reason: String,
}

/// Commands, and what they are for.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What is done.
    pub title: &'static str,
    /// How.
    pub commands: Vec<String>,
}
