//! What the operator itself does for Weka clients, beside what it does for every driver.

use serde_json::Value;

use crate::driver::rbac::{Rule, merged};

const WEKA: &str = "weka.weka.io";
const SEE: &str = "list watch";

const RULES: [Rule; 8] = [
    (WEKA, "wekaclients", "get list watch patch"),
    (WEKA, "wekaclients/status", "patch"),
    (
        WEKA,
        "wekacontainers",
        "get list watch create update patch delete",
    ),
    (WEKA, "wekacontainers/status", "patch"),
    (WEKA, "wekaclusters", SEE),
    // Topology labels.
    ("", "nodes", "list watch patch"),
    // Client pods and CSI node pods.
    ("", "pods", "get list watch create update delete"),
    // What is still mounted.
    ("storage.k8s.io", "volumeattachments", SEE),
];

/// The rules of the ClusterRole in `deploy/weka/rules.yaml`.
pub fn operator_rules() -> Vec<Value> {
    merged(RULES.iter())
}
