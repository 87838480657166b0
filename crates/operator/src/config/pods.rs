//! Pods of Weka clients and of their driver: what a site changes about them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, Probe, ResourceRequirements, Volume, VolumeMount};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::ConfigError;
use crate::driver::CONTAINER_NAMES;

/// The container of a pod that is the driver.
pub const PLUGIN: &str = "wekafs";

/// Reads what Kubernetes describes the way everything else of it is read: from JSON. Read from YAML as well, its hundred types would
/// be a megabyte of the binary.
fn by_value<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    serde_json::from_value(Value::deserialize(from)?).map_err(D::Error::custom)
}

/// Pods of Weka clients.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClientPods {
    /// ConfigMap in the namespace of the client with the program that starts it; empty: the image starts by itself.
    pub boot_config_map: String,
    /// Whether pods ask for huge pages.
    pub hugepages: bool,
    /// Whether pods ask for cores and memory.
    pub resources: bool,
    /// Directory of the node for what clients keep.
    pub persistence_path: String,
    /// What tells whether a client serves; without one it does when it runs.
    #[serde(deserialize_with = "by_value")]
    pub readiness_probe: Option<Probe>,
    /// What pods get beside what they need anyway.
    pub extra: Extra,
}

impl Default for ClientPods {
    fn default() -> Self {
        Self {
            boot_config_map: "weka-boot-scripts".to_owned(),
            hugepages: true,
            resources: true,
            persistence_path: "/opt/k8s-weka".to_owned(),
            readiness_probe: None,
            extra: Extra::default(),
        }
    }
}

impl ClientPods {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.extra.check("wekaClients.extra")
    }
}

/// What the first container of a pod, and the pod, get beside what is rendered: for another image, a proxy, certificates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Extra {
    /// Arguments, after ours.
    pub args: Vec<String>,
    /// Variables; one of ours with the same name is replaced.
    #[serde(deserialize_with = "by_value")]
    pub env: Vec<EnvVar>,
    /// Volumes of the pod.
    #[serde(deserialize_with = "by_value")]
    pub volumes: Vec<Volume>,
    /// Where the container sees them.
    #[serde(deserialize_with = "by_value")]
    pub volume_mounts: Vec<VolumeMount>,
}

impl Extra {
    /// Every mount is of one of these volumes: those of ours are nobody else's business.
    pub(super) fn check(&self, field: &str) -> Result<(), ConfigError> {
        let is_known = |name: &String| self.volumes.iter().any(|it| it.name == *name);
        let stray = self.volume_mounts.iter().find(|it| !is_known(&it.name));
        stray.map_or(Ok(()), |mount| {
            Err(ConfigError::Wrong {
                field: format!("{field}.volumeMounts"),
                reason: format!("`volumes` has no `{}`: add it", mount.name),
            })
        })
    }

    /// Adds it to the spec of a pod.
    pub fn add_to(&self, pod: &mut Value) {
        append(pod, "volumes", &self.volumes);
        let container = &mut pod["containers"][0];
        append(container, "args", &self.args);
        append(container, "volumeMounts", &self.volume_mounts);
        if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
            env.retain(|ours| !self.env.iter().any(|it| ours["name"] == it.name));
        }
        append(container, "env", &self.env);
    }
}

fn append(object: &mut Value, field: &str, more: &[impl Serialize]) {
    if more.is_empty() {
        return;
    }
    let more = more.iter().map(|it| json!(it));
    match object.get_mut(field).and_then(Value::as_array_mut) {
        Some(list) => list.extend(more),
        None => object[field] = more.collect(),
    }
}

/// Requests and limits of the driver's containers, by name, in both of its pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CsiResources {
    /// In the controller.
    pub controller: Resources,
    /// In node pods.
    pub node: Resources,
}

/// Requests and limits of containers, by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Resources(
    #[serde(deserialize_with = "by_value")] BTreeMap<String, ResourceRequirements>,
);

impl Resources {
    /// Those of a container, if there are any.
    pub fn of(&self, container: &str) -> Option<Value> {
        self.0.get(container).map(|it| json!(it))
    }
}

impl CsiResources {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (pod, Resources(resources)) in [("controller", &self.controller), ("node", &self.node)]
        {
            let is_known = |name: &str| name == PLUGIN || CONTAINER_NAMES.contains(&name);
            if let Some(name) = resources.keys().find(|name| !is_known(name)) {
                return Err(ConfigError::Wrong {
                    field: format!("csi.resources.{pod}"),
                    reason: format!(
                        "there is no container `{name}`: use {PLUGIN}, {}",
                        CONTAINER_NAMES.join(", ")
                    ),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::config::OperatorConfig;

    #[test]
    fn a_pod_gets_what_a_site_adds_and_its_variables_win() {
        let config = OperatorConfig::parse(
            "
wekaClients:
  readinessProbe: {httpGet: {path: /readyz, port: 14150}}
  extra:
    args: [--more]
    env: [{name: PORT, value: '1'}]
    volumes: [{name: ca, hostPath: {path: /etc/ca}}]
    volumeMounts: [{name: ca, mountPath: /ca}]
",
        );
        let mut pod = json!({"containers": [{"env": [
            {"name": "NAME", "value": "x"}, {"name": "PORT", "value": "0"},
        ]}]});
        let clients = config.unwrap().weka_clients;
        clients.extra.add_to(&mut pod);
        let expected = json!({
            "containers": [{
                "args": ["--more"],
                "env": [{"name": "NAME", "value": "x"}, {"name": "PORT", "value": "1"}],
                "volumeMounts": [{"name": "ca", "mountPath": "/ca"}],
            }],
            "volumes": [{"name": "ca", "hostPath": {"path": "/etc/ca"}}],
        });
        assert_eq!(pod, expected);
        let bare = json!({"containers": [{"name": "x"}]});
        let mut untouched = bare.clone();
        OperatorConfig::default().csi.extra.add_to(&mut untouched);
        assert_eq!(untouched, bare);
    }

    #[test]
    fn mistakes_are_errors_that_name_the_field() {
        for (text, expected) in [
            (
                "csi: {extra: {volumeMounts: [{name: ca, mountPath: /ca}]}}",
                "`csi.extra.volumeMounts`: `volumes` has no `ca`",
            ),
            ("wekaClients: {extra: {argv: [x]}}", "argv"),
            (
                "csi: {resources: {node: {weka: {limits: {memory: 1Gi}}}}}",
                "`csi.resources.node`: there is no container `weka`: use wekafs, csi-sidecar",
            ),
        ] {
            let error = OperatorConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
