//! What a driver may have beside what its sidecars need.

use std::collections::BTreeMap;

use serde_json::Value;

/// Rules for the accounts of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraRules {
    /// For controller pods.
    pub controller: ScopedRules,
    /// For node pods.
    pub node: ScopedRules,
}

/// Rules by where they hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScopedRules {
    /// In the whole cluster.
    pub cluster: Vec<Value>,
    /// In the driver's namespace.
    pub namespace: Vec<Value>,
}

/// Objects in the driver's namespace whose changes replace pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartOn {
    /// Names of ConfigMaps.
    pub config_maps: Vec<String>,
    /// Names of Secrets.
    pub secrets: Vec<String>,
}

impl RestartOn {
    /// Whether pods are replaced for their template only.
    pub fn is_empty(&self) -> bool {
        self.config_maps.is_empty() && self.secrets.is_empty()
    }
}

/// How metrics of the built-in sidecar are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Whether a Service is asked for.
    pub service: bool,
    /// The ServiceMonitor, if one is asked for.
    pub monitor: Option<Monitor>,
}

impl Metrics {
    /// A ServiceMonitor needs a Service.
    pub fn has_service(&self) -> bool {
        self.service || self.monitor.is_some()
    }
}

/// A ServiceMonitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monitor {
    /// Labels by which a Prometheus finds it.
    pub labels: BTreeMap<String, String>,
    /// How often metrics are read.
    pub interval: Option<String>,
}
