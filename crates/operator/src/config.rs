//! What an administrator sets once for all drivers: the file `config.yaml` of the operator's ConfigMap.
//!
//! The fields of 2018 keep their names. Missing fields have defaults, unknown ones are errors: a mistyped field that
//! is ignored looks as if it worked.

mod csi;
mod pods;
mod source;

use std::collections::BTreeMap;
use std::env;

use serde::Deserialize;

use crate::driver_deployment::image;
pub use csi::{CsiConfig, WekaClass};
pub use pods::{ClientPods, PLUGIN, Resources};
pub use source::{ConfigSource, LoadError};

/// The image that the built-in sidecar runs from unless something else is configured.
const OWN_IMAGE: &str = concat!("stowage.dev/stowage:", env!("CARGO_PKG_VERSION"));
/// The image that the operator itself runs from, where its manifest says so: drivers get the same.
const OWN_IMAGE_VARIABLE: &str = "STOWAGE_IMAGE";

/// The roles that all drivers had in 2018.
const CLUSTER_ROLE: &str = "system:openshift:csi-driver";
const LEADER_ELECTION_ROLE: &str = "system:openshift:csi-driver-controller-leader-election";

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OperatorConfig {
    /// Images of sidecars whose instance names none.
    pub default_images: DefaultImages,
    /// Registry and path that take the place of the registry in default images: a site's own mirror.
    pub registry_prefix: Option<String>,
    /// Secrets in each driver's namespace with which images are pulled.
    pub image_pull_secrets: Vec<String>,
    /// Labels of the nodes where controllers run.
    pub infrastructure_node_selector: Option<BTreeMap<String, String>>,
    /// Taints of those nodes that keep no controller away.
    pub infrastructure_tolerations: Vec<serde_json::Value>,
    /// How many pods a controller has; 0 is the default, 1.
    pub deployment_replicas: u16,
    /// Where the kubelet keeps its files; empty is the default, `/var/lib/kubelet`.
    pub kubelet_root_dir: String,
    /// The CSI driver that Weka clients bring along.
    pub csi: CsiConfig,
    /// Pods of Weka clients.
    pub weka_clients: ClientPods,
    /// Names of 2018, which say only what was the default: each driver has roles of its own.
    cluster_role_name: Option<String>,
    leader_election_cluster_role_name: Option<String>,
}

/// Images of sidecars.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultImages {
    /// The built-in sidecar.
    pub sidecar_image: String,
    /// External attacher.
    pub attacher_image: String,
    /// External provisioner.
    pub provisioner_image: String,
    /// External resizer.
    pub resizer_image: String,
    /// Snapshotter.
    pub snapshotter_image: String,
    /// Node driver registrar.
    pub driver_registrar_image: String,
    /// Liveness probe.
    pub liveness_probe_image: String,
}

impl Default for DefaultImages {
    fn default() -> Self {
        let upstream = |name| format!("registry.k8s.io/sig-storage/{name}");
        Self {
            sidecar_image: own_image(),
            attacher_image: upstream("csi-attacher:v4.12.0"),
            provisioner_image: upstream("csi-provisioner:v6.3.0"),
            resizer_image: upstream("csi-resizer:v2.2.0"),
            snapshotter_image: upstream("csi-snapshotter:v8.6.0"),
            driver_registrar_image: upstream("csi-node-driver-registrar:v2.17.0"),
            liveness_probe_image: upstream("livenessprobe:v2.19.0"),
        }
    }
}

fn own_image() -> String {
    let given = env::var(OWN_IMAGE_VARIABLE).ok();
    given
        .filter(|image| !image.is_empty())
        .unwrap_or_else(|| OWN_IMAGE.to_owned())
}

impl DefaultImages {
    fn each(&self) -> [(&'static str, &String); 7] {
        [
            ("sidecarImage", &self.sidecar_image),
            ("attacherImage", &self.attacher_image),
            ("provisionerImage", &self.provisioner_image),
            ("resizerImage", &self.resizer_image),
            ("snapshotterImage", &self.snapshotter_image),
            ("driverRegistrarImage", &self.driver_registrar_image),
            ("livenessProbeImage", &self.liveness_probe_image),
        ]
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not YAML, a field that nobody knows, or a value of another type.
    #[error("the operator's configuration cannot be read: {0}")]
    Unreadable(String),
    /// A value that cannot be used.
    #[error("the operator's configuration is invalid: `{field}`: {reason}")]
    Wrong {
        /// The field.
        field: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
}

impl OperatorConfig {
    /// Reads the file. An empty one is the default.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let unreadable = |error: serde_saphyr::Error| ConfigError::Unreadable(error.to_string());
        let config: Option<Self> = serde_saphyr::from_str(text).map_err(unreadable)?;
        let config = config.unwrap_or_default();
        for (field, image) in config.default_images.each() {
            if let Some(reason) = image::outdated(image) {
                let field = format!("defaultImages.{field}");
                return Err(ConfigError::Wrong { field, reason });
            }
        }
        if !config.kubelet_root_dir.is_empty() && !config.kubelet_root_dir.starts_with('/') {
            return Err(ConfigError::Wrong {
                field: "kubeletRootDir".to_owned(),
                reason: "must be an absolute path".to_owned(),
            });
        }
        config.check_roles()?;
        config.csi.check()?;
        config.weka_clients.check()?;
        Ok(config)
    }

    /// Files of 2018 name the roles of all drivers. Other roles than the usual ones would mean something that does not happen.
    fn check_roles(&self) -> Result<(), ConfigError> {
        for (field, name, usual) in [
            ("clusterRoleName", &self.cluster_role_name, CLUSTER_ROLE),
            (
                "leaderElectionClusterRoleName",
                &self.leader_election_cluster_role_name,
                LEADER_ELECTION_ROLE,
            ),
        ] {
            if name.as_deref().is_some_and(|it| it != usual) {
                return Err(ConfigError::Wrong {
                    field: field.to_owned(),
                    reason: "each driver has roles of its own: remove this field, and add what a driver needs beside them to \
                             `extraRules` of its CSIDriverDeployment"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The kubelet's directory, without a slash at its end.
    pub fn kubelet_root(&self) -> &str {
        match self.kubelet_root_dir.trim_end_matches('/') {
            "" => "/var/lib/kubelet",
            root => root,
        }
    }

    /// How many pods a controller has.
    pub fn replicas(&self) -> u16 {
        self.deployment_replicas.max(1)
    }

    /// A default image, from the site's mirror where there is one.
    pub fn image(&self, default: &str) -> String {
        match &self.registry_prefix {
            Some(prefix) if !prefix.is_empty() => image::mirrored(prefix, default),
            _ => default.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        for text in ["", "# nothing\n", "{}"] {
            let config = OperatorConfig::parse(text).unwrap();
            assert_eq!(config, OperatorConfig::default(), "{text:?}");
        }
        let config = OperatorConfig::default();
        assert_eq!(config.kubelet_root(), "/var/lib/kubelet");
        assert_eq!(config.replicas(), 1);
    }

    #[test]
    fn the_file_of_2018_is_understood() {
        let config = OperatorConfig::parse(
            "
defaultImages:
  attacherImage: mirror/csi-attacher:v4.8.0
infrastructureNodeSelector: {role: infra}
deploymentReplicas: 2
clusterRoleName: system:openshift:csi-driver
leaderElectionClusterRoleName: system:openshift:csi-driver-controller-leader-election
kubeletRootDir: /var/snap/kubelet/
",
        )
        .unwrap();
        assert_eq!(
            config.default_images.attacher_image,
            "mirror/csi-attacher:v4.8.0"
        );
        let provisioner = DefaultImages::default().provisioner_image;
        assert_eq!(config.default_images.provisioner_image, provisioner);
        assert_eq!(
            config.infrastructure_node_selector.clone().unwrap()["role"],
            "infra"
        );
        assert_eq!(config.replicas(), 2);
        assert_eq!(config.kubelet_root(), "/var/snap/kubelet");
    }

    #[test]
    fn roles_of_another_name_are_refused_by_name() {
        for field in ["clusterRoleName", "leaderElectionClusterRoleName"] {
            let error = OperatorConfig::parse(&format!("{field}: mine")).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(&format!("`{field}`")) && text.contains("extraRules"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_missing_selector_stays_missing() {
        let config = OperatorConfig::parse("infrastructureNodeSelector: null").unwrap();
        assert_eq!(config.infrastructure_node_selector, None);
    }

    #[test]
    fn mistakes_are_errors_that_name_the_field() {
        for (text, expected) in [
            ("deploymentReplica: 2", "deploymentReplica"),
            ("deploymentReplicas: two", "invalid"),
            ("deploymentReplicas: -1", "invalid"),
            (
                "kubeletRootDir: var/lib",
                "`kubeletRootDir`: must be an absolute path",
            ),
            (
                "defaultImages: {attacherImage: 'quay.io/k8scsi/csi-attacher:v0.3.0'}",
                "`defaultImages.attacherImage`: implements CSI 0.x",
            ),
        ] {
            let error = OperatorConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_mirror_takes_the_place_of_the_registry() {
        let config = OperatorConfig::parse("registryPrefix: mirror.example/storage/").unwrap();
        let image = config.image(&config.default_images.attacher_image);
        assert_eq!(
            image,
            "mirror.example/storage/sig-storage/csi-attacher:v4.12.0"
        );
    }
}
