//! Pods of the plugin: ours, or csi-wekafs with its own flags.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Value, json};
use stowage_api::weka::{CsiAdvanced, WekaClient, WekaContainer};

use crate::config::{OperatorConfig, PLUGIN};
use crate::driver::PodTemplate;
use crate::driver::valid::ValidDriver;
use crate::weka::names::{accessible_label, weka_container};

/// What a client says about few people's needs.
pub(super) fn advanced(client: &WekaClient) -> CsiAdvanced {
    let config = client.spec.csi_config.as_ref();
    let advanced = config.and_then(|it| it.advanced.clone());
    advanced.unwrap_or_default()
}

/// A template that stands for pods that are asked for one by one.
pub(super) fn bare_template() -> PodTemplate {
    PodTemplate::own(
        json!({"spec": {"containers": [{"name": PLUGIN, "securityContext": {"privileged": true}}]}}),
    )
}

/// Where a pod of the plugin runs.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Controller,
    Node,
}

impl Mode {
    const fn word(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Node => "node",
        }
    }
}

/// The controller inherits the client's tolerations; its node selector comes with the workload.
pub(super) fn controller_template(
    driver: &ValidDriver,
    client: &WekaClient,
    config: &OperatorConfig,
) -> PodTemplate {
    let advanced = advanced(client);
    let mut tolerations = client.spec.all_tolerations();
    tolerations.extend(advanced.controller_tolerations.clone().unwrap_or_default());
    let plugin = Plugin {
        driver,
        mode: Mode::Controller,
        container: weka_container(client),
        advanced,
        config,
    };
    plugin.template(&tolerations, &BTreeMap::new())
}

/// Node pods inherit the client's tolerations, and stay on a node that wants to be rid of everything: without them
/// nothing could be unmounted there.
pub(super) fn node_template(
    driver: &ValidDriver,
    client: &WekaClient,
    container: &WekaContainer,
    config: &OperatorConfig,
) -> PodTemplate {
    let advanced = advanced(client);
    let mut tolerations = container.spec.tolerations.clone().unwrap_or_default();
    tolerations.extend(advanced.node_tolerations.clone().unwrap_or_default());
    tolerations.extend(["NoSchedule", "NoExecute"].map(|effect| Toleration {
        effect: Some(effect.to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    }));
    let labels = advanced.node_labels.clone().unwrap_or_default();
    let plugin = Plugin {
        driver,
        mode: Mode::Node,
        container: container.spec.name.clone(),
        advanced,
        config,
    };
    plugin.template(&tolerations, &labels)
}

/// A controller mounts filesystems, too. Preferred, never required: before the first client serves it has to be somewhere.
fn where_clients_serve(driver: &ValidDriver) -> Value {
    let serves =
        json!({"key": accessible_label(&driver.driver_name), "operator": "In", "values": ["true"]});
    json!({
        "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "preference": {"matchExpressions": [serves]},
        }],
    })
}

struct Plugin<'a> {
    driver: &'a ValidDriver,
    mode: Mode,
    /// The client to mount through.
    container: String,
    advanced: CsiAdvanced,
    config: &'a OperatorConfig,
}

impl Plugin<'_> {
    fn template(
        &self,
        tolerations: &[Toleration],
        labels: &BTreeMap<String, String>,
    ) -> PodTemplate {
        let mut spec = json!({"tolerations": tolerations, "containers": [self.container()]});
        // Node pods have no rights, and ours asks for none.
        if self.mode == Mode::Node && self.config.csi.image.is_empty() {
            spec["automountServiceAccountToken"] = json!(false);
        }
        if self.mode == Mode::Controller {
            spec["affinity"] = json!({"nodeAffinity": where_clients_serve(self.driver)});
        }
        let volumes = self.volumes();
        if !volumes.is_empty() {
            spec["volumes"] = json!(volumes);
        }
        self.config.csi.extra.add_to(&mut spec);
        PodTemplate::own(json!({"metadata": {"labels": labels}, "spec": spec}))
    }

    fn container(&self) -> Value {
        let csi = &self.config.csi;
        let mut container = json!({
            "name": PLUGIN,
            "imagePullPolicy": "IfNotPresent",
            "env": self.environment(),
            // It mounts.
            "securityContext": {"privileged": true},
        });
        if csi.image.is_empty() {
            container["image"] =
                json!(self.config.image(&self.config.default_images.sidecar_image));
            container["args"] = json!(self.own_flags());
        } else {
            container["image"] = json!(csi.image);
            container["args"] = json!(self.flags_of_csi_wekafs());
            container["volumeMounts"] = json!(self.mounts());
            // Not in the node's `/dev`, which the container sees as its own.
            container["terminationMessagePath"] = json!("/tmp/termination-log");
        }
        let resources = match self.mode {
            Mode::Controller => &csi.resources.controller,
            Mode::Node => &csi.resources.node,
        };
        if let Some(resources) = resources.of(PLUGIN) {
            container["resources"] = resources;
        }
        container
    }

    /// What both worlds call the same.
    fn common_flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--drivername={}", self.driver.driver_name),
            "--endpoint=unix:///csi/csi.sock".to_owned(),
            "--nodeid=$(KUBE_NODE_NAME)".to_owned(),
            format!("--v={}", self.config.csi.log_level),
            format!("--wekafscontainername={}", self.container),
        ];
        if self.advanced.enforce_trusted_https != Some(true) {
            flags.push("--allowinsecurehttps".to_owned());
        }
        if self.advanced.skip_garbage_collection == Some(true) {
            flags.push("--skipgarbagecollection".to_owned());
        }
        flags
    }

    fn own_flags(&self) -> Vec<String> {
        let mode = format!("--mode={}", self.mode.word());
        let mut flags = vec!["driver".to_owned(), "weka".to_owned(), mode];
        flags.extend(self.common_flags());
        if let Mode::Controller = self.mode {
            let allowed = ["--allowautofscreation", "--allowautofsexpansion"];
            flags.extend(allowed.map(str::to_owned));
        }
        flags
    }

    fn flags_of_csi_wekafs(&self) -> Vec<String> {
        const OF_ALL: [&str; 9] = [
            "--dynamic-path=csi-volumes",
            "--newvolumeprefix=csivol-",
            "--newsnapshotprefix=csisnp-",
            "--seedsnapshotprefix=csisnp-seed-",
            "--mutuallyexclusivemountoptions=readcache,writecache,coherent,forcedirect",
            "--mutuallyexclusivemountoptions=sync,async",
            "--mutuallyexclusivemountoptions=ro,rw",
            "--grpcrequesttimeoutseconds=30",
            "--enablemetrics",
        ];
        let of_mode: &[&str] = match self.mode {
            Mode::Controller => &[
                "--metricsport=9090",
                "--allowautofscreation",
                "--allowautofsexpansion",
                "--concurrency.createVolume=5",
                "--concurrency.deleteVolume=5",
                "--concurrency.expandVolume=5",
                "--concurrency.createSnapshot=5",
                "--concurrency.deleteSnapshot=5",
            ],
            Mode::Node => &[
                "--metricsport=9094",
                "--concurrency.nodePublishVolume=5",
                "--concurrency.nodeUnpublishVolume=5",
            ],
        };
        let mut flags = self.common_flags();
        flags.push(format!("--csimode={}", self.mode.word()));
        let fixed = OF_ALL.iter().chain(of_mode);
        flags.extend(fixed.map(|flag| (*flag).to_owned()));
        flags
    }

    fn environment(&self) -> Vec<Value> {
        let field = |name: &str, path: &str| {
            let field = json!({"apiVersion": "v1", "fieldPath": path});
            json!({"name": name, "valueFrom": {"fieldRef": field}})
        };
        let value = |name: &str, value: &str| json!({"name": name, "value": value});
        let mut all = vec![field("KUBE_NODE_NAME", "spec.nodeName")];
        if !self.config.csi.image.is_empty() {
            all.extend([
                field("KUBE_NODE_IP_ADDRESS", "status.hostIP"),
                value("CSI_DRIVER_NAME", &self.driver.driver_name),
                value("CSI_DRIVER_VERSION", self.config.csi.reported_version()),
                value("CSI_ENDPOINT", "unix:///csi/csi.sock"),
                value("CSI_DYNAMIC_PATH", "csi-volumes"),
                value("X_CSI_MODE", self.mode.word()),
                value("X_CSI_DEBUG", "false"),
                value("LOG_LEVEL", &self.config.csi.log_level.to_string()),
            ]);
        }
        all
    }

    /// Directories of the node that csi-wekafs expects; ours needs none beside those that every driver gets.
    fn directories(&self) -> Vec<(&'static str, String, &'static str, bool)> {
        if self.config.csi.image.is_empty() {
            return Vec::new();
        }
        let root = &self.driver.paths.kubelet_root;
        let data = "/var/lib/csi-wekafs-data".to_owned();
        let mut all = vec![
            ("csi-data-dir", data, "DirectoryOrCreate", false),
            ("dev-dir", "/dev".to_owned(), "Directory", false),
        ];
        // Node pods have the kubelet's whole directory.
        if self.mode == Mode::Controller {
            all.push((
                "mountpoint-dir",
                format!("{root}/pods"),
                "DirectoryOrCreate",
                true,
            ));
            all.push(("plugins-dir", format!("{root}/plugins"), "Directory", true));
        }
        all
    }

    fn volumes(&self) -> Vec<Value> {
        let directories = self.directories().into_iter();
        let volume = |(name, path, kind, _): (&str, String, &str, bool)| json!({"name": name, "hostPath": {"path": path, "type": kind}});
        directories.map(volume).collect()
    }

    fn mounts(&self) -> Vec<Value> {
        let directories = self.directories().into_iter();
        let mount = |(name, path, _, is_shared): (&str, String, &str, bool)| {
            let mut mount = json!({"name": name, "mountPath": path});
            if is_shared {
                mount["mountPropagation"] = json!("Bidirectional");
            }
            mount
        };
        directories.map(mount).collect()
    }
}
