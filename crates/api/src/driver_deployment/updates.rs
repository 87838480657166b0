//! How node pods are replaced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::Unknown;

/// How nodes are emptied before their driver pod is replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDrain {
    /// Begin with no further node, and leave those that still have their old driver pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Seconds that one node may take before the update stops. 1800 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
    /// Seconds to wait once nothing is seen to use the driver, where nobody can tell what is mounted. 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub settle_seconds: Option<i32>,
    /// Pods without a controller, which nobody makes again: `Hold` (default) waits for them, `Evict` loses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Hold", "Evict"]))]
    pub bare_pods: Option<String>,
    /// Pods with an `emptyDir`, whose content is lost: `Hold` (default) or `Evict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Hold", "Evict"]))]
    pub empty_dir_pods: Option<String>,
    /// Pods of DaemonSets, which do not move: `Hold` (default) waits for them, `Ignore` replaces the driver under them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Hold", "Ignore"]))]
    pub daemon_set_pods: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
