//! The pods of a driver: what makes them, and where they may run.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stowage_api::driver_deployment::{DRAINING_EFFECT, draining_taint};

use super::variant::Variant;
use crate::config::OperatorConfig;
use crate::driver::PodTemplate;
use crate::driver::valid::{Controller, NodeShape, NodeWorkload, Placement, UpdateStrategy};

pub(super) fn controller(
    instance: &str,
    template: PodTemplate,
    replicas: u16,
    config: &OperatorConfig,
    draining: Option<Value>,
) -> Controller {
    let mut tolerations = config.infrastructure_tolerations.clone();
    tolerations.extend(draining);
    let mut node_selector = linux();
    node_selector.extend(
        config
            .infrastructure_node_selector
            .clone()
            .unwrap_or_default(),
    );
    Controller {
        name: format!("{instance}-controller"),
        template,
        replicas,
        placement: Placement {
            node_selector,
            tolerations,
            ..Placement::default()
        },
    }
}

/// What the pods on all nodes have in common.
pub(super) struct OfNodes<'a> {
    instance: &'a str,
    update: UpdateStrategy,
    /// What they tolerate of their own driver's taints.
    own_taints: Vec<Value>,
}

impl<'a> OfNodes<'a> {
    pub(super) fn new(
        instance: &'a str,
        update: UpdateStrategy,
        draining: Option<&Value>,
        startup_taint: Option<&str>,
    ) -> Self {
        let starting = startup_taint.map(startup_toleration);
        Self {
            instance,
            update,
            own_taints: draining.cloned().into_iter().chain(starting).collect(),
        }
    }

    /// The pods of most nodes, and those of nodes that need others. A node has one of them: two drivers of the same name would
    /// take each other's place at its kubelet.
    pub(super) fn workloads(
        self,
        (template, variants): (PodTemplate, Vec<Variant>),
    ) -> Vec<NodeWorkload> {
        let labels: Vec<_> = variants.iter().map(|it| it.label.clone()).collect();
        let name = format!("{}-node", self.instance);
        let mut workloads = vec![self.workload(name.clone(), template, linux(), &labels)];
        for (number, variant) in variants.into_iter().enumerate() {
            let mut nodes = linux();
            nodes.extend([variant.label]);
            let name = format!("{name}-{}", variant.name);
            workloads.push(self.workload(name, variant.template, nodes, &labels[..number]));
        }
        workloads
    }

    /// Volumes must be unmounted wherever there are any: no taint keeps the driver away, unless its template says which may.
    fn workload(
        &self,
        name: String,
        template: PodTemplate,
        node_selector: BTreeMap<String, String>,
        elsewhere: &[(String, String)],
    ) -> NodeWorkload {
        let is_open = template.spec()["tolerations"].is_null();
        let tolerations = if is_open {
            vec![json!({"operator": "Exists"})]
        } else {
            self.own_taints.clone()
        };
        NodeWorkload {
            name,
            template,
            shape: NodeShape::DaemonSet(self.update),
            placement: Placement {
                node_selector,
                elsewhere: elsewhere.to_vec(),
                tolerations,
            },
        }
    }
}

/// A node that is being emptied is no reason for the driver's own pods to leave it.
pub(super) fn draining_toleration(driver: &str) -> Value {
    json!({"key": draining_taint(driver), "operator": "Exists", "effect": DRAINING_EFFECT})
}

/// The driver is what the node waits for.
fn startup_toleration(key: &str) -> Value {
    json!({"key": key, "operator": "Exists"})
}

/// Nodes of another system have no use for our sidecars.
fn linux() -> BTreeMap<String, String> {
    [("kubernetes.io/os".to_owned(), "linux".to_owned())].into()
}
