//! From a driver that is wanted to its objects, by the same generator that makes those of a CSIDriverDeployment. Pure.

mod client_pod;
mod container;
mod plugin;

use std::collections::BTreeMap;

use serde_json::json;
use sha2::{Digest, Sha256};
use stowage_api::weka::{
    CONTAINER_NAMESPACE_LABEL, CONTAINER_UID_LABEL, CSI_DRIVER_LABEL, MODE_LABEL, WekaClient,
    WekaContainer,
};

pub use client_pod::{SETTINGS_HASH, client_pod, settings_hash};
pub use container::{Placement, container};

use super::names::{self, Names};
use super::plan::DriverPlan;
use crate::config::{CsiConfig, OperatorConfig, Resources, WekaClass};
use crate::driver::valid::{
    Builtin, ClassBase, Controller, ControllerRole, CsiDriver, NodeShape, NodeWorkload, Paths,
    Ports, Probe, SecretAccess, Sidecars, StorageClass, Tuning, UpdatePolicy, Upstream,
    UpstreamContainer,
};
use crate::driver::{
    Facts, Kind, Object, Owner, PodFacts, ValidDriver, build, pod_on_node, sidecar, valid,
};

/// Annotation of node pods: a hash over everything that was rendered for them.
pub const NODE_HASH: &str = "weka.io/csi-node-hash";
/// Annotations of the controller: the client whose node selector and tolerations it has.
const OWNER: &str = "weka.io/csi-controller-owner";

/// How often a driver is asked whether it is well, and how long it may take for an answer.
const PROBE: Probe = Probe {
    period: 30,
    timeout: 30,
};

/// Images of the Kubernetes project's sidecars where only some are chosen: those of the documentation.
const SIDECARS: [(ControllerRole, &str); 4] = [
    (ControllerRole::Attacher, "csi-attacher:v4.8.0"),
    (ControllerRole::Provisioner, "csi-provisioner:v5.1.0"),
    (ControllerRole::Resizer, "csi-resizer:v1.13.1"),
    (ControllerRole::Snapshotter, "csi-snapshotter:v8.2.0"),
];
const REGISTRAR: &str = "csi-node-driver-registrar:v2.13.0";
const LIVENESS_PROBE: &str = "livenessprobe:v2.15.0";

/// Everything of a driver but its node pods.
pub fn objects(plan: &DriverPlan, config: &OperatorConfig, facts: &Facts) -> Vec<Object> {
    let driver = driver(plan, config, &config.csi.resources.controller);
    let mut objects = build(&driver, facts);
    for object in &mut objects {
        let mode = match object.kind {
            Kind::CsiDriver => "csi_driver",
            Kind::StorageClass => "csi_storageclass",
            Kind::Deployment => {
                object.annotations = owner_annotations(plan.owner());
                inherit_labels(&mut object.labels, plan.owner());
                "csi_controller"
            }
            _ => "csi",
        };
        label(&mut object.labels, &plan.names.driver, mode);
    }
    objects
}

/// The node pod beside a container. `mounts_key_hash`: it tells what is mounted to who has this key.
pub fn node_pod(
    plan: &DriverPlan,
    client: &WekaClient,
    container: &WekaContainer,
    node: &str,
    config: &OperatorConfig,
    mounts_key_hash: Option<&str>,
) -> Object {
    let driver = driver(plan, config, &config.csi.resources.node);
    let workload = NodeWorkload {
        template: plugin::node_template(&driver, client, container, config),
        name: plan.names.node_account.clone(),
        shape: NodeShape::PodPerNode,
        placement: valid::Placement::default(),
    };
    let metadata = &container.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let name = names::node_pod(&text(&metadata.name));
    let facts = PodFacts {
        mounts_key_hash: mounts_key_hash.map(str::to_owned),
        restart_hash: None,
    };
    let mut pod = pod_on_node(&driver, &workload, &facts, &name, node);
    label(&mut pod.labels, &plan.names.driver, "csi_node");
    pod.labels
        .insert(CONTAINER_UID_LABEL.to_owned(), text(&metadata.uid));
    pod.labels.insert(
        CONTAINER_NAMESPACE_LABEL.to_owned(),
        text(&metadata.namespace),
    );
    let hash = hash(std::slice::from_ref(&pod));
    pod.annotations.insert(NODE_HASH.to_owned(), hash);
    pod
}

/// A hash over everything that is rendered: the same for the same wish, in every process.
pub fn hash(objects: &[Object]) -> String {
    let mut digest = Sha256::new();
    for object in objects {
        // Keys of JSON objects are sorted.
        digest.update(object.manifest(crate::served::Versions::NEWEST).to_string());
    }
    let hash = digest.finalize();
    hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn label(labels: &mut BTreeMap<String, String>, driver: &str, mode: &str) {
    labels.insert(CSI_DRIVER_LABEL.to_owned(), driver.to_owned());
    labels.insert(MODE_LABEL.to_owned(), mode.to_owned());
}

/// The client's own labels where there are none, and those that it asks for in any case.
fn inherit_labels(labels: &mut BTreeMap<String, String>, client: &WekaClient) {
    for (key, value) in client.metadata.labels.iter().flatten() {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let created_by = ("app.kubernetes.io/created-by", "weka-operator");
    labels.insert(created_by.0.to_owned(), created_by.1.to_owned());
    let advanced = plugin::advanced(client);
    labels.extend(advanced.controller_labels.unwrap_or_default());
}

fn owner_annotations(owner: &WekaClient) -> BTreeMap<String, String> {
    let metadata = &owner.metadata;
    [
        (OWNER.to_owned(), metadata.uid.clone()),
        (format!("{OWNER}-name"), metadata.name.clone()),
        (format!("{OWNER}-namespace"), metadata.namespace.clone()),
    ]
    .into_iter()
    .map(|(key, value)| (key, value.unwrap_or_default()))
    .collect()
}

/// The driver as the generator takes it, with what the containers beside it may use.
fn driver(plan: &DriverPlan, config: &OperatorConfig, resources: &Resources) -> ValidDriver {
    let (names, csi) = (&plan.names, &config.csi);
    let owner = Owner {
        namespace: csi.namespace.clone(),
        name: names.driver.clone(),
        uid: Names::owner_uid(&names.driver),
    };
    let mut driver = ValidDriver {
        owner,
        driver_name: names.driver.clone(),
        names: valid::Names {
            controller_account: names.controller.clone(),
            node_account: names.node_account.clone(),
            role: format!("leader-election-{}", names.controller),
            cluster_role: format!("weka-csi-{}", names.driver),
        },
        paths: paths(&names.driver, config),
        node_workloads: Vec::new(),
        drain: None,
        startup_taint: None,
        controller: None,
        sidecars: sidecars(config, resources),
        log_level: None,
        secret_access: SecretAccess::Named,
        probe: Some(PROBE),
        ports: Ports::starting_at(Ports::FIRST),
        pull_secrets: config.image_pull_secrets.clone(),
        driver_secrets: Vec::new(),
        csi_driver: csi_driver(),
        classes: valid::Classes {
            storage: storage_classes(plan, csi),
            ..valid::Classes::default()
        },
        extra_rules: valid::ExtraRules::default(),
        restart_on: valid::RestartOn::default(),
        metrics: valid::Metrics::default(),
    };
    // For the account of node pods: the pods are asked for one by one.
    driver.node_workloads.push(NodeWorkload {
        name: names.node_account.clone(),
        template: plugin::bare_template(),
        shape: NodeShape::PodPerNode,
        placement: valid::Placement::default(),
    });
    let own = plan.owner().spec.csi_config.clone().unwrap_or_default();
    if own.disable_controller_creation != Some(true) {
        driver.controller = Some(Controller {
            name: names.controller.clone(),
            template: plugin::controller_template(&driver, plan.owner(), config),
            replicas: csi.controller_replicas.max(1),
            placement: valid::Placement {
                node_selector: plan.owner().spec.node_selector.clone().unwrap_or_default(),
                ..valid::Placement::default()
            },
        });
    }
    driver
}

fn paths(driver: &str, config: &OperatorConfig) -> Paths {
    let kubelet_root = config.kubelet_root().to_owned();
    Paths {
        plugin_directory: format!("{kubelet_root}/plugins/{driver}"),
        kubelet_root,
        socket_directory: "/csi".to_owned(),
        socket_file: "csi.sock".to_owned(),
    }
}

fn csi_driver() -> CsiDriver {
    CsiDriver::Wanted {
        spec: json!({
            "attachRequired": true,
            "podInfoOnMount": true,
            "volumeLifecycleModes": ["Persistent"],
            "fsGroupPolicy": "File",
        }),
        update: UpdatePolicy::Recreate,
    }
}

/// Ours, unless one of the Kubernetes project's is chosen.
fn sidecars(config: &OperatorConfig, resources: &Resources) -> Sidecars {
    let csi = &config.csi;
    let tuning = |name: &str| Tuning {
        resources: resources.of(name),
        // Volumes know their claims: for metrics, and for mount options by annotation.
        extra_args: match name {
            "csi-provisioner" => vec!["--extra-create-metadata".to_owned()],
            _ => Vec::new(),
        },
    };
    if !csi.has_upstream_sidecars() {
        return Sidecars::Builtin(Builtin {
            image: config.image(&config.default_images.sidecar_image),
            node_deployment: false,
            controller: Tuning {
                resources: resources.of(sidecar::BUILTIN),
                ..tuning(ControllerRole::Provisioner.container())
            },
            node: tuning(sidecar::BUILTIN),
        });
    }
    let container = |chosen: &str, default: &str, name: &str| UpstreamContainer {
        image: match chosen {
            "" => config.image(&format!("registry.k8s.io/sig-storage/{default}")),
            chosen => chosen.to_owned(),
        },
        tuning: tuning(name),
    };
    let controllers = SIDECARS.map(|(role, default)| {
        let chosen = match role {
            ControllerRole::Attacher => &csi.attacher_image,
            ControllerRole::Provisioner => &csi.provisioner_image,
            ControllerRole::Resizer => &csi.resizer_image,
            ControllerRole::Snapshotter => &csi.snapshotter_image,
        };
        (role, container(chosen, default, role.container()))
    });
    let probe = &csi.liveness_probe_image;
    Sidecars::Upstream(Upstream {
        controllers: controllers.into(),
        registrar: container(&csi.registrar_image, REGISTRAR, sidecar::REGISTRAR),
        liveness_probe: container(probe, LIVENESS_PROBE, sidecar::PROBE),
    })
}

fn storage_classes(plan: &DriverPlan, csi: &CsiConfig) -> Vec<StorageClass> {
    if csi.storage_class_creation_disabled {
        return Vec::new();
    }
    let classes = csi.storage_classes.iter();
    classes.map(|class| storage_class(plan, class)).collect()
}

fn storage_class(plan: &DriverPlan, class: &WekaClass) -> StorageClass {
    const CALLS: [&str; 5] = [
        "controller-expand",
        "controller-publish",
        "node-publish",
        "node-stage",
        "provisioner",
    ];
    let (namespace, secret) = &plan.secret;
    let mut parameters: BTreeMap<String, String> = [
        ("capacityEnforcement", "HARD".to_owned()),
        ("filesystemName", class.filesystem.clone()),
        ("volumeType", "dir/v1".to_owned()),
        ("mountOptions", class.mount_options.join(",")),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    for call in CALLS {
        let key = |end: &str| format!("csi.storage.k8s.io/{call}-secret-{end}");
        parameters.insert(key("name"), secret.clone());
        parameters.insert(key("namespace"), namespace.clone());
    }
    let fields = [
        ("reclaimPolicy", json!("Delete")),
        ("allowVolumeExpansion", json!(true)),
        ("volumeBindingMode", json!("Immediate")),
    ];
    StorageClass {
        base: ClassBase {
            name: plan
                .names
                .storage_class(&class.filesystem, &class.mount_options, &class.suffix),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            default: None,
            parameters: Some(parameters),
            // Volumes know their class by name only.
            update: UpdatePolicy::Recreate,
        },
        fields: fields
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect(),
    }
}
