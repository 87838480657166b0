//! Pod templates: what would clash with what the operator adds.

use serde_json::Value;

use super::field::Errors;
use crate::config::OperatorConfig;
use crate::driver::valid::{Paths, Ports};
use crate::driver::{CONTAINER_NAMES, PROBE_PORT_NAME, PodTemplate, VOLUME_NAMES};

const NODE: &str = "spec.driverPerNodeTemplate";
const CONTROLLER: &str = "spec.driverControllerTemplate";

/// What the operator adds to pods.
pub(super) struct Pods<'a> {
    pub(super) paths: Option<&'a Paths>,
    pub(super) ports: Ports,
    pub(super) probed: bool,
    pub(super) builtin: bool,
}

impl Pods<'_> {
    /// Ports in one kind of pod.
    fn ports(&self, of: &str) -> Vec<u16> {
        let (health, metrics) = match of {
            CONTROLLER => (
                self.ports.controller_health,
                Some(self.ports.controller_metrics),
            ),
            _ => (self.ports.node_health, None),
        };
        let health = self.probed.then_some(health);
        health
            .into_iter()
            .chain(metrics.filter(|_| self.builtin))
            .collect()
    }

    /// Paths that the operator mounts in the driver's container.
    fn mounts(&self, of: &str) -> Vec<&str> {
        let Some(paths) = self.paths else {
            return Vec::new();
        };
        let root = (of != CONTROLLER).then_some(paths.kubelet_root.as_str());
        [paths.socket_directory.as_str()]
            .into_iter()
            .chain(root)
            .collect()
    }
}

/// The template of node pods.
pub(super) fn node(errors: &mut Errors, pods: &Pods, template: &Value) -> Option<PodTemplate> {
    node_at(errors, NODE, pods, template)
}

/// The same for pods of some nodes, at another path.
pub(super) fn node_at(
    errors: &mut Errors,
    path: &str,
    pods: &Pods,
    template: &Value,
) -> Option<PodTemplate> {
    let template = parse(errors, path, template)?;
    clashes(errors, path, pods, &template);
    let privileged = &template.driver()["securityContext"]["privileged"];
    if *privileged != true {
        let path = format!("{path}.spec.containers[0].securityContext.privileged");
        let detail = "must be true: mounts of the driver are propagated to the node, which only privileged containers are \
                      allowed to do";
        errors.invalid(path, privileged.clone(), detail);
    }
    Some(template)
}

/// The template of controller pods.
pub(super) fn controller(
    errors: &mut Errors,
    pods: &Pods,
    template: &Value,
    config: &OperatorConfig,
) -> Option<PodTemplate> {
    let template = parse(errors, CONTROLLER, template)?;
    clashes(errors, CONTROLLER, pods, &template);
    for (key, value) in config.infrastructure_node_selector.iter().flatten() {
        let own = template
            .spec()
            .get("nodeSelector")
            .and_then(|selector| selector.get(key));
        if let Some(own) = own.filter(|own| *own != value) {
            let detail = format!(
                "the operator's configuration selects nodes with `{value}` for controllers: remove the label from one of \
                 the two"
            );
            errors.invalid(
                format!("{CONTROLLER}.spec.nodeSelector[{key}]"),
                own.clone(),
                detail,
            );
        }
    }
    Some(template)
}

fn parse(errors: &mut Errors, path: &str, template: &Value) -> Option<PodTemplate> {
    match PodTemplate::parse(template) {
        Ok(template) => Some(template),
        Err(wrong) => {
            for part in wrong {
                let path = match part.path.as_str() {
                    "" => path.to_owned(),
                    below => format!("{path}.{below}"),
                };
                errors.invalid(path, part.value, part.expected);
            }
            None
        }
    }
}

fn clashes(errors: &mut Errors, path: &str, pods: &Pods, template: &PodTemplate) {
    const OURS: &str = "is used by the operator: choose another name";
    for (index, volume) in list(template.spec().get("volumes")).enumerate() {
        if VOLUME_NAMES.iter().any(|ours| volume["name"] == *ours) {
            let path = format!("{path}.spec.volumes[{index}].name");
            errors.invalid(path, volume["name"].clone(), OURS);
        }
    }
    let ports = pods.ports(path);
    for (below, container) in template.containers() {
        if CONTAINER_NAMES
            .iter()
            .any(|ours| container["name"] == *ours)
        {
            let detail = "is used by the operator, which runs the sidecars itself: remove the container, or choose \
                          another name for it";
            errors.invalid(
                format!("{path}.{below}.name"),
                container["name"].clone(),
                detail,
            );
        }
        for (index, port) in list(container.get("ports")).enumerate() {
            let path = format!("{path}.{below}.ports[{index}]");
            if pods.probed && port["name"] == PROBE_PORT_NAME {
                errors.invalid(format!("{path}.name"), port["name"].clone(), OURS);
            }
            if ports.iter().any(|ours| port["containerPort"] == *ours) {
                let detail = "is used by the sidecar: choose another port";
                let path = format!("{path}.containerPort");
                errors.invalid(path, port["containerPort"].clone(), detail);
            }
        }
    }
    for (index, mount) in list(template.driver().get("volumeMounts")).enumerate() {
        let at = mount["mountPath"].as_str().unwrap_or_default();
        if pods.mounts(path).contains(&at.trim_end_matches('/')) {
            let path = format!("{path}.spec.containers[0].volumeMounts[{index}].mountPath");
            errors.invalid(path, at, "is mounted by the operator: remove the mount");
        }
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
