//! What an administrator sets for Weka clients and their CSI driver: `csi` has the names of Weka's chart.

use serde::Deserialize;

use super::ConfigError;
use super::pods::{CsiResources, Extra};
use crate::driver_deployment::image;
use crate::weka::names::Scheme;

/// The CSI driver of Weka clients. An empty image is the default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CsiConfig {
    /// Whether clients bring a driver along. Switched off, everything of it is removed; what is mounted stays.
    pub installation_enabled: bool,
    /// Where its pods and accounts are.
    pub namespace: String,
    /// The version of the plugin that is reported; empty: that of this program.
    pub driver_version: String,
    /// The plugin. Set, it gets the flags of csi-wekafs; empty: ours.
    pub image: String,
    /// External provisioner. One of these images set: the Kubernetes project's sidecars take the place of ours.
    pub provisioner_image: String,
    /// External attacher.
    pub attacher_image: String,
    /// Liveness probe.
    pub liveness_probe_image: String,
    /// External resizer.
    pub resizer_image: String,
    /// Snapshotter.
    pub snapshotter_image: String,
    /// Node driver registrar.
    pub registrar_image: String,
    /// How drivers are called.
    pub naming_scheme: Scheme,
    /// Whether no storage classes are made.
    pub storage_class_creation_disabled: bool,
    /// The storage classes of each driver.
    pub storage_classes: Vec<WekaClass>,
    /// How many pods a controller has.
    pub controller_replicas: u16,
    /// How much the driver says in its log.
    pub log_level: u8,
    /// Whether nodes lose their topology labels, and so new pods with volumes, while their client does not serve.
    pub prevent_new_workload_on_client_container_not_running: bool,
    /// How long a client must not serve before that.
    pub node_label_patience_seconds: u32,
    /// Requests and limits of its containers.
    pub resources: CsiResources,
    /// What its own container gets, in the controller and in node pods, beside what it needs anyway.
    pub extra: Extra,
}

impl Default for CsiConfig {
    fn default() -> Self {
        let class = |options: &[&str]| WekaClass {
            mount_options: options.iter().map(|it| (*it).to_owned()).collect(),
            ..WekaClass::default()
        };
        Self {
            installation_enabled: false,
            namespace: "weka-operator-system".to_owned(),
            driver_version: String::new(),
            image: String::new(),
            provisioner_image: String::new(),
            attacher_image: String::new(),
            liveness_probe_image: String::new(),
            resizer_image: String::new(),
            snapshotter_image: String::new(),
            registrar_image: String::new(),
            naming_scheme: Scheme::Seed,
            storage_class_creation_disabled: false,
            storage_classes: vec![class(&[]), class(&["forcedirect"])],
            controller_replicas: 2,
            log_level: 5,
            prevent_new_workload_on_client_container_not_running: true,
            node_label_patience_seconds: 60,
            resources: CsiResources::default(),
            extra: Extra::default(),
        }
    }
}

/// A storage class that each driver gets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WekaClass {
    /// The filesystem.
    pub filesystem: String,
    /// How it is mounted.
    pub mount_options: Vec<String>,
    /// The end of the name, in place of the mount options.
    pub suffix: String,
}

impl Default for WekaClass {
    fn default() -> Self {
        Self {
            filesystem: "default".to_owned(),
            mount_options: Vec::new(),
            suffix: String::new(),
        }
    }
}

impl CsiConfig {
    /// The images of the Kubernetes project's sidecars, by field.
    fn sidecar_images(&self) -> [(&'static str, &String); 6] {
        [
            ("provisionerImage", &self.provisioner_image),
            ("attacherImage", &self.attacher_image),
            ("livenessProbeImage", &self.liveness_probe_image),
            ("resizerImage", &self.resizer_image),
            ("snapshotterImage", &self.snapshotter_image),
            ("registrarImage", &self.registrar_image),
        ]
    }

    /// Whether the Kubernetes project's sidecars take the place of ours.
    pub fn has_upstream_sidecars(&self) -> bool {
        let mut images = self.sidecar_images().into_iter();
        images.any(|(_, image)| !image.is_empty())
    }

    /// The version that is reported.
    pub fn reported_version(&self) -> &str {
        match self.driver_version.as_str() {
            "" => env!("CARGO_PKG_VERSION"),
            version => version,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field: &str, reason: String| ConfigError::Wrong {
            field: format!("csi.{field}"),
            reason,
        };
        for (field, image) in self.sidecar_images() {
            if let Some(reason) = image::outdated(image) {
                return Err(wrong(field, reason));
            }
        }
        if self.namespace.is_empty() {
            return Err(wrong("namespace", "must be non-empty".to_owned()));
        }
        let names: Vec<_> = self.storage_classes.iter().map(WekaClass::end).collect();
        let twice = names.iter().find(|name| {
            let same = names.iter().filter(|it| it == name);
            same.count() > 1
        });
        if let Some(name) = twice {
            let reason = format!("two classes end in `{name}`: give one of them a `suffix`");
            return Err(wrong("storageClasses", reason));
        }
        self.resources.check()?;
        self.extra.check("csi.extra")
    }
}

impl WekaClass {
    /// What tells the names of classes apart.
    fn end(&self) -> String {
        let mut parts = vec![self.filesystem.as_str()];
        match self.suffix.as_str() {
            "" => parts.extend(self.mount_options.iter().map(String::as_str)),
            suffix => parts.push(suffix),
        }
        parts.join("-")
    }
}

#[cfg(test)]
mod tests {
    use crate::config::OperatorConfig;

    #[test]
    fn the_values_of_the_documentation_are_understood() {
        let config = OperatorConfig::parse(
            r#"
csi:
  installationEnabled: true
  namespace: weka-operator-system
  driverVersion: "2.7.2"
  image: "quay.io/weka.io/csi-wekafs:v2.7.2"
  provisionerImage: "registry.k8s.io/sig-storage/csi-provisioner:v5.1.0"
  attacherImage: "registry.k8s.io/sig-storage/csi-attacher:v4.8.0"
  livenessProbeImage: "registry.k8s.io/sig-storage/livenessprobe:v2.15.0"
  resizerImage: "registry.k8s.io/sig-storage/csi-resizer:v1.13.1"
  snapshotterImage: "registry.k8s.io/sig-storage/csi-snapshotter:v8.2.0"
  registrarImage: "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0"
"#,
        )
        .unwrap();
        assert!(config.csi.installation_enabled && config.csi.has_upstream_sidecars());
        assert_eq!(config.csi.reported_version(), "2.7.2");
    }

    #[test]
    fn without_a_word_nothing_is_installed_and_everything_is_ours() {
        let csi = OperatorConfig::default().csi;
        assert!(!csi.installation_enabled && !csi.has_upstream_sidecars());
        assert_eq!(csi.reported_version(), env!("CARGO_PKG_VERSION"));
        assert_eq!(csi.storage_classes.len(), 2);
    }

    #[test]
    fn mistakes_are_errors_that_name_the_field() {
        for (text, expected) in [
            ("csi: {installEnabled: true}", "installEnabled"),
            ("csi: {namingScheme: mine}", "mine"),
            ("csi: {namespace: ''}", "`csi.namespace`: must be non-empty"),
            (
                "csi: {attacherImage: 'quay.io/k8scsi/csi-attacher:v0.3.0'}",
                "`csi.attacherImage`: implements CSI 0.x",
            ),
            (
                "csi: {storageClasses: [{mountOptions: [a-b]}, {mountOptions: [a, b]}]}",
                "two classes end in `default-a-b`",
            ),
        ] {
            let error = OperatorConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
