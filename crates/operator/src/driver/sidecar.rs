//! The containers beside the driver.

mod container;

use serde_json::Value;
use stowage_api::mounts::PORT_FLAG;

use self::container::container;
use super::PodFacts;
use super::template::PodTemplate;
use super::valid::{
    Builtin, ControllerRole, CsiDriver, Probe, Sidecars, Upstream, UpstreamContainer, ValidDriver,
};

/// Names of volumes that are ours in every pod.
pub const VOLUME_NAMES: [&str; 3] = [SOCKET_VOLUME, REGISTRATION_VOLUME, KUBELET_VOLUME];
/// Names of containers that are ours in every pod, whichever sidecars are chosen: a template with one of them brings
/// its own sidecar, and two of a kind would fight.
pub const CONTAINER_NAMES: [&str; 7] = [
    BUILTIN,
    REGISTRAR,
    PROBE,
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
];
/// Name of the port that answers the liveness probe.
pub const PROBE_PORT_NAME: &str = "csi-probe";

pub(super) const SOCKET_VOLUME: &str = "csi-driver";
pub(super) const REGISTRATION_VOLUME: &str = "registration-dir";
pub(super) const KUBELET_VOLUME: &str = "kubelet-root";

/// Our own sidecar.
pub const BUILTIN: &str = "csi-sidecar";
/// What registers the driver with the kubelet.
pub const REGISTRAR: &str = "csi-driver-registrar";
/// What answers the liveness probe.
pub const PROBE: &str = "csi-probe";
/// Name of the port of the built-in sidecar's metrics.
pub(super) const METRICS_PORT_NAME: &str = "csi-metrics";
/// How much the Kubernetes project's sidecars log: as in its own examples.
const UPSTREAM_LOG_LEVEL: u8 = 5;
/// Where sidecars see the directory of the driver's socket.
const SOCKET_MOUNT: &str = "/csi";
/// Where sidecars see the directory in which the kubelet looks for drivers.
const REGISTRATION_MOUNT: &str = "/registration";

impl ControllerRole {
    /// The name of its container.
    pub const fn container(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
            Self::Snapshotter => "csi-snapshotter",
        }
    }
}

/// The sidecars of a controller pod.
pub(super) fn of_controller(driver: &ValidDriver, template: &PodTemplate) -> Vec<Value> {
    match &driver.sidecars {
        Sidecars::Builtin(builtin) => vec![builtin_controller(driver, builtin, template)],
        Sidecars::Upstream(upstream) => {
            let mut containers: Vec<_> = upstream
                .controllers
                .iter()
                .map(|(role, of)| upstream_controller(driver, *role, of, template))
                .collect();
            containers.extend(upstream_probe(
                driver,
                upstream,
                template,
                driver.ports.controller_health,
            ));
            containers
        }
    }
}

/// The sidecars of a node pod.
pub(super) fn of_node(
    driver: &ValidDriver,
    template: &PodTemplate,
    facts: &PodFacts,
) -> Vec<Value> {
    match &driver.sidecars {
        Sidecars::Builtin(builtin) => {
            let hash = facts.mounts_key_hash.as_deref();
            vec![builtin_node(driver, builtin, template, hash)]
        }
        Sidecars::Upstream(upstream) => {
            let mut containers = vec![upstream_registrar(driver, &upstream.registrar, template)];
            let port = driver.ports.node_health;
            containers.extend(upstream_probe(driver, upstream, template, port));
            containers
        }
    }
}

fn builtin_controller(driver: &ValidDriver, builtin: &Builtin, template: &PodTemplate) -> Value {
    let mut args = vec!["sidecar".to_owned(), "controller".to_owned()];
    args.extend(builtin_common(driver, driver.ports.controller_health));
    args.extend(election(driver));
    args.push(format!(
        "--http-endpoint=:{}",
        driver.ports.controller_metrics
    ));
    args.extend(capacity(driver, ABOVE_REPLICA_SET));
    container(BUILTIN, &builtin.image, args, &builtin.controller, template)
        .env_of_pod()
        .port(METRICS_PORT_NAME, driver.ports.controller_metrics)
        .mount(SOCKET_VOLUME, SOCKET_MOUNT)
        .done()
}

fn builtin_node(
    driver: &ValidDriver,
    builtin: &Builtin,
    template: &PodTemplate,
    mounts_key_hash: Option<&str>,
) -> Value {
    let mut args = vec!["sidecar".to_owned(), "node".to_owned()];
    args.extend(builtin_common(driver, driver.ports.node_health));
    args.push(format!(
        "--kubelet-registration-path={}",
        driver.paths.socket_on_node()
    ));
    args.push(format!("--plugin-registration-path={REGISTRATION_MOUNT}"));
    if builtin.node_deployment {
        args.push("--node-deployment".to_owned());
        args.push("--node-name=$(KUBE_NODE_NAME)".to_owned());
        args.extend(capacity(driver, ABOVE_POD));
    }
    let root = &driver.paths.kubelet_root;
    if let Some(hash) = mounts_key_hash {
        args.push(format!("{PORT_FLAG}={}", driver.ports.node_mounts));
        args.push(format!("--mounts-key-sha256={hash}"));
        args.push(format!("--kubelet-root={root}"));
    }
    let mut container = container(BUILTIN, &builtin.image, args, &builtin.node, template)
        .mount(SOCKET_VOLUME, SOCKET_MOUNT)
        .mount(REGISTRATION_VOLUME, REGISTRATION_MOUNT);
    if builtin.node_deployment {
        container = container
            .env_from_field("KUBE_NODE_NAME", "spec.nodeName")
            .env_of_pod();
    }
    if mounts_key_hash.is_some() {
        container = container.see_mounts(KUBELET_VOLUME, root);
    }
    container.done()
}

fn builtin_common(driver: &ValidDriver, port: u16) -> Vec<String> {
    let mut args = vec![format!(
        "--csi-address={}",
        driver.paths.socket_in_sidecar()
    )];
    if is_csi_name(&driver.driver_name) {
        args.push(format!("--driver-name={}", driver.driver_name));
    }
    args.extend(driver.log_level.map(|level| format!("--v={level}")));
    match driver.probe {
        Some(probe) => args.extend(health(probe, port)),
        // Without the flag it opens its default port, which nobody would use.
        None => args.push("--health-port=0".to_owned()),
    }
    args
}

/// Names of 2018 may have more in them than the specification allows; the sidecar expects none of those.
fn is_csi_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    name.chars().all(is_inner) && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// The driver has as long to answer as the kubelet waits.
fn health(probe: Probe, port: u16) -> [String; 2] {
    [
        format!("--health-port={port}"),
        format!("--probe-timeout={}s", probe.timeout),
    ]
}

/// Also with one replica: while a Deployment rolls there are two.
fn election(driver: &ValidDriver) -> [String; 2] {
    [
        "--leader-election=true".to_owned(),
        format!("--leader-election-namespace={}", driver.owner.namespace),
    ]
}

/// The owner of capacity objects is what made the pod, or what made that: they go with the driver.
const ABOVE_POD: u8 = 1;
const ABOVE_REPLICA_SET: u8 = 2;

/// With `storageCapacity: true` in its CSIDriver the scheduler skips nodes whose capacity is not published.
fn capacity(driver: &ValidDriver, owner_level: u8) -> Vec<String> {
    match &driver.csi_driver {
        CsiDriver::Wanted { spec, .. } if spec["storageCapacity"] == true => vec![
            "--enable-capacity=true".to_owned(),
            format!("--capacity-ownerref-level={owner_level}"),
        ],
        CsiDriver::Wanted { .. } | CsiDriver::NameUnfit { .. } => Vec::new(),
    }
}

fn upstream_controller(
    driver: &ValidDriver,
    role: ControllerRole,
    of: &UpstreamContainer,
    template: &PodTemplate,
) -> Value {
    let mut args = upstream_common(driver);
    args.extend(election(driver));
    let tells_capacity = role == ControllerRole::Provisioner;
    if tells_capacity {
        args.extend(capacity(driver, ABOVE_REPLICA_SET));
    }
    let mut container = container(role.container(), &of.image, args, &of.tuning, template)
        .env("ADDRESS", &driver.paths.socket_in_sidecar())
        .mount(SOCKET_VOLUME, SOCKET_MOUNT);
    if tells_capacity {
        container = container.env_of_pod();
    }
    container.done()
}

fn upstream_registrar(
    driver: &ValidDriver,
    of: &UpstreamContainer,
    template: &PodTemplate,
) -> Value {
    let mut args = upstream_common(driver);
    args.push("--kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)".to_owned());
    container(REGISTRAR, &of.image, args, &of.tuning, template)
        .env("ADDRESS", &driver.paths.socket_in_sidecar())
        .env("DRIVER_REG_SOCK_PATH", &driver.paths.socket_on_node())
        .env_from_field("KUBE_NODE_NAME", "spec.nodeName")
        .mount(SOCKET_VOLUME, SOCKET_MOUNT)
        .mount(REGISTRATION_VOLUME, REGISTRATION_MOUNT)
        .done()
}

fn upstream_probe(
    driver: &ValidDriver,
    upstream: &Upstream,
    template: &PodTemplate,
    port: u16,
) -> Option<Value> {
    let probe = driver.probe?;
    let of = &upstream.liveness_probe;
    let mut args = upstream_common(driver);
    args.extend(health(probe, port));
    let container = container(PROBE, &of.image, args, &of.tuning, template)
        .env("ADDRESS", &driver.paths.socket_in_sidecar())
        .mount(SOCKET_VOLUME, SOCKET_MOUNT);
    Some(container.done())
}

fn upstream_common(driver: &ValidDriver) -> Vec<String> {
    let level = driver.log_level.unwrap_or(UPSTREAM_LOG_LEVEL);
    vec![
        format!("--v={level}"),
        "--csi-address=$(ADDRESS)".to_owned(),
    ]
}
